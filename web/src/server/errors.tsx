// What went wrong: requests of this page with their ids, and the counts of the server.

import type { JSX } from "preact";
import { Copy } from "../ui/copy";
import { count, moment } from "../ui/numbers";
import { failed } from "./failed";
import { metrics } from "./watch";

export function Errors(): JSX.Element {
  const counted = metrics.value.filter((sample) => sample.name === "graphmill_requests_total" && /^[45]|left/.test(sample.labels["code"] ?? "") && sample.value > 0);
  return (
    <section class="card">
      <header>
        <h2>Errors</h2>
      </header>
      {counted.length === 0 && failed.value.length === 0 && <p class="hint">None since the server started.</p>}
      {counted.length > 0 && (
        <div class="scroll stacked" tabIndex={0} role="group" aria-label="Table of errors">
          <table>
            <thead>
              <tr>
                <th scope="col">Status</th>
                <th scope="col">Path</th>
                <th scope="col">Graph</th>
                <th scope="col" class="number">
                  Requests
                </th>
              </tr>
            </thead>
            <tbody>
              {counted.map(({ labels, value }, index) => (
                <tr key={index}>
                  <td>{labels["code"] === "left" ? "client left" : labels["code"]}</td>
                  <td>
                    <code>{labels["endpoint"]}</code>
                  </td>
                  <td>{labels["graph"]}</td>
                  <td class="number" data-label="Requests">
                    {count(value)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {failed.value.length > 0 && (
        <>
          <h3>Of this page</h3>
          <ul class="failed">
            {failed.value.map((one, index) => (
              <li key={index}>
                <time>{moment(one.at)}</time>
                <code>
                  {one.method} {one.path}
                </code>
                <span>
                  {one.status || "no answer"}: {one.message}
                </span>
                {one.requestId && (
                  <span class="request-id">
                    <code>{one.requestId}</code>
                    <Copy text={() => one.requestId ?? ""} label="Copy the request's id" />
                  </span>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
