


wConst