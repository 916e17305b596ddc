
,
wConst* 
valueB	Rþÿÿÿÿÿÿÿÿ