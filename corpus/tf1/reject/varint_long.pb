
,
wConst* 
valueB	Rÿÿÿÿÿÿÿÿÿÿ