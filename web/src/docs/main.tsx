// Where the page of `/docs` begins.

import { render } from "preact";
import "../state/theme";
import { Docs } from "./page";

const root = document.getElementById("page");
if (root) {
  root.textContent = "";
  render(<Docs />, root);
}
