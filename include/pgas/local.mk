# Public headers, installed as <pgas/NAME.h>. Add yours as: pkginclude_HEADERS += %D%/NAME.h
