
$
wConst*
valueB	R