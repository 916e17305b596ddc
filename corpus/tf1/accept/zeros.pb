
#
wConst*
valueB