/**
 * Hints make things faster, never right: "something is ready in this queue", "a timer near its time changed",
 * "a cancel waits for you", "shards were given up", "a replan was asked for", "a backfill may go on",
 * "somebody follows this run", "a line or the end of a run that is followed was written",
 * "something happened to a workflow run", "a run depends on others, or one of those has ended".
 * Each may be lost, doubled or late; the polling behind it is the truth. Publishing is debounced (per topic
 * and key the first goes out at once, further ones each 5 ms, or each 50 ms where they keep coming) and never
 * fails the caller.
 */

export type Hint =
  | { readonly topic: 'ready'; readonly key: string /* queue */ }
  | { readonly topic: 'timers'; readonly key: string /* shard, as decimal */ }
  | { readonly topic: 'cancel'; readonly key: string /* session id */ }
  | { readonly topic: 'shards'; readonly key: 'free' }
  | { readonly topic: 'replans'; readonly key: 'asked' }
  | { readonly topic: 'watch'; readonly key: string /* run id */ }
  | { readonly topic: 'run'; readonly key: string /* run id */ }
  | { readonly topic: 'workflows'; readonly key: 'any' }
  | { readonly topic: 'dependencies'; readonly key: 'any' }
  | { readonly topic: 'backfills'; readonly key: string /* shard of the schedule, as decimal, or `any` */ }
  | { readonly topic: 'gate'; readonly key: string /* tenant */ }

export interface Hints {
  publish(hint: Hint): void
  /** Calls `listener` for every hint, from this process or another, until the returned function is called. */
  subscribe(listener: (hint: Hint) => void): () => void
}
