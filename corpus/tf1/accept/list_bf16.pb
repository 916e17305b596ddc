
&
wConst*
valueBj€€€