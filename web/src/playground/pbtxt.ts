// The text format of graphs, for colors alone: what is right and wrong, the server says.

import { StreamLanguage, type StreamParser } from "@codemirror/language";

const parser: StreamParser<null> = {
  name: "pbtxt",
  startState: () => null,
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/#.*/)) return "comment";
    if (stream.match(/"(?:[^"\\]|\\.)*"?/) || stream.match(/'(?:[^'\\]|\\.)*'?/)) return "string";
    if (stream.match(/\[[\w./\s]+\]/)) return "typeName";
    if (stream.match(/-?\d[\w.+-]*/)) return "number";
    if (stream.match(/(?:true|false)\b/)) return "bool";
    if (stream.match(/\w+(?=\s*[:{[<])/)) return "propertyName";
    if (stream.match(/\w+/)) return "atom";
    stream.next();
    return "punctuation";
  },
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["{", "[", '"'] } },
};

export const pbtxt = StreamLanguage.define(parser);
