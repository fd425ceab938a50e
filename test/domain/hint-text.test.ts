// A hint as it goes from process to process: every topic arrives, and nothing that is no hint is taken for
// one.
import { expect, it } from 'vitest'
import { hintText, parseHint } from '../../packages/server/src/engine/hint-text.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'

/** The compiler holds that none is left out. */
const keys: { readonly [Topic in Hint['topic']]: Extract<Hint, { topic: Topic }>['key'] } = {
  ready: 'default',
  timers: '7',
  cancel: 'session',
  shards: 'free',
  replans: 'asked',
  watch: 'run',
  run: 'run',
  workflows: 'any',
  dependencies: 'any',
  backfills: 'any',
  gate: 'tenant',
}
const hints = Object.entries(keys).map(([topic, key]) => ({ topic, key }) as Hint)

it.each(hints)('a hint of $topic reaches another process', (hint) => {
  expect(parseHint(hintText('one', hint), 'another')).toEqual(hint)
})

it.each(hints)('a hint of $topic that comes back to its sender is passed over', (hint) => {
  expect(parseHint(hintText('one', hint), 'one')).toBeUndefined()
})

it.each([
  '',
  'one',
  'one ready',
  'one nowhere key',
  'one ready key more',
  'one toString key',
  'one __proto__ key',
])('what says nothing is passed over: %j', (text) => {
  expect(parseHint(text, 'another')).toBeUndefined()
})
