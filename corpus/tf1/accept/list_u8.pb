
$
wConst*
valueB:È