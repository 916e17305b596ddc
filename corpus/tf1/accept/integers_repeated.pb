
,
wConst* 
valueB	Rúÿÿÿÿÿÿÿÿ