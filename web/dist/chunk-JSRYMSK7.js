import{H as t,c}from"./chunk-JRHD7WGK.js";function r({text:p}){return t(c,{children:p.split("`").map((e,o)=>o%2===1?t("code",{children:e},o):e)})}export{r as a};
