import{G as t,c}from"./chunk-J3KR56QI.js";function r({text:p}){return t(c,{children:p.split("`").map((e,o)=>o%2===1?t("code",{children:e},o):e)})}export{r as a};
