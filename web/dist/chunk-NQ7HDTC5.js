import{m as e,v as i}from"./chunk-AED4SQAG.js";var a=50,o=e([]);function n(){i(l=>{o.value=[l,...o.value].slice(0,a)})}export{o as a,n as b};
