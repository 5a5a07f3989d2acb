# The record of pgas_serialize, for Cap'n Proto.
@0xd6f2b1c94a7e3058;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("serialize");

struct Record {
  numbers @0 :List(Int64);
  texts @1 :List(Data);
}
