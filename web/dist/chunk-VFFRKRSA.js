import{n as e,z as i}from"./chunk-JRHD7WGK.js";var a=50,o=e([]);function n(){i(l=>{o.value=[l,...o.value].slice(0,a)})}export{o as a,n as b};
