
&
wConst*
valueBj€x€€