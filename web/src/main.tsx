// Where the page begins.

import { render } from "preact";
import { App } from "./app";
import { keepFailures } from "./server/failed";
import "./state/theme";

keepFailures();
const root = document.getElementById("page");
if (root) {
  root.textContent = "";
  render(<App />, root);
}
