// What each engine does now, and did in the last minutes.

import type { JSX } from "preact";
import type { EmbeddingEngine, Engine } from "../api/types";
import { bytes, count, duration, percent } from "../ui/numbers";
import { Chart } from "./chart";
import { courses, nameOf } from "./watch";

export function EngineView({ engine }: { engine: Engine }): JSX.Element {
  const course = courses.value[nameOf(engine)] ?? [];
  const at = course.map((point) => point.at);
  const { weights } = engine.effective;
  const drafted = engine.drafted_tokens;
  return (
    <section class="card engine" aria-label={`Engine of ${engine.model}`}>
      <header>
        <h3>{engine.model}</h3>
        <State of={engine.state} />
        <p class="hint">
          {engine.graph}
          {weights && ` · ${weights.architecture} ${weights.quantization} · ${count(weights.parameters / 1e6)} M parameters`}
          {` · ${engine.effective.backend}`}
        </p>
      </header>
      {engine.failure && <p class="bad">{engine.failure}</p>}
      {engine.stalled_seconds > 5 && <p class="bad">No step for {engine.stalled_seconds} s although there is work.</p>}
      <dl class="numbers">
        <Meter name="KV cells" share={engine.kv_cells_used / engine.kv_cells_total} text={`${count(engine.kv_cells_used)} of ${count(engine.kv_cells_total)}`} />
        <Meter name="Running" share={engine.sequences_running / engine.effective.max_num_seqs} text={`${engine.sequences_running} of ${engine.effective.max_num_seqs} slots`} />
        <Figure name="Waiting" text={count(engine.sequences_waiting)} hint={`${count(engine.prompt_tokens_waiting)} tokens of prompts`} />
        <Figure name="Step" text={engine.steps > 0 ? duration(engine.step.median_ms) : "–"} hint={`${count(engine.steps)} steps, ${engine.failed_steps} failed; up to ${engine.effective.max_num_batched_tokens} tokens in one`} />
        <Figure name="Cache hits" text={engine.prefix_cache.queries > 0 ? percent(engine.prefix_cache.hits / engine.prefix_cache.queries) : "–"} hint={`${count(engine.prefix_cache.hits)} tokens reused, ${bytes(engine.prefix_cache.bytes)} kept`} />
        <Figure name="Speculation" text={drafted > 0 ? percent(engine.accepted_tokens / drafted) : "off"} hint={drafted > 0 ? `of ${count(drafted)} drafted tokens accepted` : "no draft was made"} />
        <Figure name="Generated" text={count(engine.generated_tokens)} hint={`tokens; ${count(engine.prompt_tokens)} of prompts computed`} />
        <Figure name="Preempted" text={count(engine.preemptions)} hint={`${count(engine.refused)} refused, ${engine.restarts} restarts`} />
      </dl>
      <div class="charts">
        <Chart
          title="Tokens a second"
          at={at}
          lines={[
            { name: "generated", color: "accent", values: course.map((point) => point.tokens) },
            { name: "prompt", color: "amber", values: course.map((point) => point.prompt) },
          ]}
        />
        <Chart
          title="Sequences"
          at={at}
          lines={[
            { name: "running", color: "accent", values: course.map((point) => point.running) },
            { name: "waiting", color: "red", values: course.map((point) => point.waiting) },
          ]}
        />
      </div>
    </section>
  );
}

export function EmbeddingView({ engine }: { engine: EmbeddingEngine }): JSX.Element {
  return (
    <section class="card" aria-label={`Engine of ${engine.model}`}>
      <header>
        <h3>{engine.model}</h3>
        <State of={engine.state} />
        <p class="hint">{engine.graph} · embeds or ranks</p>
      </header>
      {engine.failure && <p class="bad">{engine.failure}</p>}
      <dl class="numbers">
        <Figure name="Requests now" text={count(engine.requests)} hint="" />
        <Figure name="Texts" text={count(engine.texts)} hint={`${count(engine.tokens)} tokens`} />
        <Figure name="Steps" text={count(engine.steps)} hint={`${engine.failed_steps} failed`} />
      </dl>
    </section>
  );
}

/** A state in a word and a color. */
export function State({ of }: { of: string }): JSX.Element {
  const good = ["RUNNING", "AVAILABLE"].includes(of);
  const bad = /FAIL|STOPPED|ERROR|PRECONDITION/.test(of);
  return (
    <span class="state" data-kind={good ? "good" : bad ? "bad" : "middle"}>
      {of.toLowerCase().replaceAll("_", " ")}
    </span>
  );
}

function Figure({ name, text, hint }: { name: string; text: string; hint: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{text}</strong>
        {hint && <small>{hint}</small>}
      </dd>
    </div>
  );
}

function Meter({ name, share, text }: { name: string; share: number; text: string }): JSX.Element {
  const value = isFinite(share) ? Math.min(1, share) : 0;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{percent(value)}</strong>
        <progress aria-label={name} max={1} value={value} />
        <small>{text}</small>
      </dd>
    </div>
  );
}
