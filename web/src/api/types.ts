// What the server answers, as far as the page reads it.

/** Whether a graph is in memory: `loaded`, `unloaded`, `loading`, `unloading` or `failed`. */
export interface Residence {
  value: string;
  reason?: string | null;
}

export interface Model {
  id: string;
  status?: Residence;
  max_model_len?: number;
  input_modalities?: string[];
  parent?: string;
  /** The ends of the paths that answer with it; absent where its nodes decide. */
  endpoints?: string[];
}

/** What an answer took, as the server measured it. Times are in milliseconds. */
export interface Timings {
  ttft_ms?: number;
  decode_ms?: number;
  prompt_tokens?: number;
  cached_tokens?: number;
  generated_tokens?: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
}

export interface TokenChance {
  token: string;
  logprob: number;
}

export interface TokenLogprob extends TokenChance {
  top_logprobs: TokenChance[];
}

export interface ToolCallDelta {
  index: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

export interface ChatChunk {
  choices: {
    index: number;
    delta: { content?: string | null; reasoning_content?: string | null; tool_calls?: ToolCallDelta[] };
    logprobs?: { content?: TokenLogprob[] | null } | null;
    finish_reason: string | null;
  }[];
  usage?: Usage | null;
  error?: { message: string };
}

/** What an engine does, in `/v3/status`. */
export interface Engine {
  model: string;
  graph: string;
  state: string;
  restarts: number;
  failure: string | null;
  sequences_running: number;
  sequences_waiting: number;
  requests_preparing: number;
  prompt_tokens_waiting: number;
  refused: number;
  kv_cells_used: number;
  kv_cells_total: number;
  prefix_cache: { queries: number; hits: number; tokens: number; bytes: number };
  steps: number;
  step: { target_ms: number; expected_ms: number; median_ms: number; prompt_tokens: number };
  prompt_tokens: number;
  generated_tokens: number;
  drafted_tokens: number;
  accepted_tokens: number;
  preemptions: number;
  failed_steps: number;
  stalled_seconds: number;
  effective: {
    context_length: number;
    max_num_seqs: number;
    max_num_batched_tokens: number;
    backend: string;
    weights?: { architecture: string; quantization: string; parameters: number; bytes: number };
  };
}

export interface EmbeddingEngine {
  model: string;
  graph: string;
  state: string;
  failure: string | null;
  requests: number;
  steps: number;
  texts: number;
  tokens: number;
  failed_steps: number;
}

export interface ServedGraph {
  name: string;
  state: string;
  ready: boolean;
  open_sessions: number;
  jobs_waiting: number;
  refused: number;
  reason?: string;
  loading?: { stage: string; seconds: number; percent?: number };
}

export interface Status {
  version: string;
  uptime_seconds: number;
  engines: Engine[];
  embedding_engines: EmbeddingEngine[];
  graphs: ServedGraph[];
}

/** A message about a text that a user wrote. */
export interface Diagnostic {
  severity: string;
  code: string;
  message: string;
  line?: number;
  column?: number;
  end_line?: number;
  end_column?: number;
  help?: string | null;
}
