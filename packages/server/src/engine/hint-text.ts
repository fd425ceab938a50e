/**
 * A hint as text between processes: `sender topic key`. What comes from outside is believed only as far as it
 * has this form; a wrong hint costs a look for nothing.
 */
import type { Hint } from '../ports/hints.ts'

/** Each of them, which the compiler holds: one that is left out would never reach another process. */
const topics: Readonly<Record<Hint['topic'], true>> = {
  ready: true,
  timers: true,
  cancel: true,
  shards: true,
  replans: true,
  backfills: true,
  gate: true,
  watch: true,
  run: true,
  workflows: true,
  dependencies: true,
}

export const hintText = (senderId: string, { topic, key }: Hint): string => `${senderId} ${topic} ${key}`

/** A hint of another process; undefined for one's own and for anything that is no hint. */
export function parseHint(text: string, ownId: string): Hint | undefined {
  const [sender, topic, key, ...rest] = text.split(' ')
  if (sender === ownId || topic === undefined || key === undefined || rest.length > 0) return undefined
  return Object.hasOwn(topics, topic) ? ({ topic, key } as Hint) : undefined
}
