
(
wConst*
valueB‚€€€€