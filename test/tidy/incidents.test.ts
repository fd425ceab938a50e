// Reports of what went wrong in other engines, by number. Each is a test here whose title begins with its
// number (`incident 7: …`), against the part that it is about.
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readRepository } from './lib/source-file.ts'

const incidents: Readonly<Record<number, string>> = {
  1: 'the node that fired last stops: no planned time is left out, and it is late by a term at most',
  3: 'a schedule is removed and added again at its minute: one run for it',
  5: 'a clock that is behind: a run that starts before its time does not break the series',
  7: 'a worker that lost its lease fails later: the next one is untouched',
  9: 'the database goes away in the last attempt of a queue in series: the next ones go on',
  11: 'stopped while the database is read-only: later every run can be claimed and read',
  13: 'an error at the start of one task: it is tried again, and schedules go on',
  15: '10,000 healthy runs that sort first do not hide those that are lost',
  17: 'two runs of one key that are due together: neither holds up others',
  19: 'several processes with the name of one host are different ones',
  21: 'a run of 47 minutes whose worker lives is not started again',
  23: 'a late heartbeat, a rescue and an end at the same instant: one terminal state',
  25: 'a worker that is unplugged: its runs are tried again',
  27: 'a fire by what was read before another one fired and armed again is refused',
  29: 'no overlap: never two at once, whatever node fires',
  31: 'shards change hands seconds before a planned time: fired once',
  33: 'runs that are held by nobody after an error of the queue are found again',
  35: 'consumers that come and go while they work: nothing is lost, doubles are refused at the claim',
  37: 'shards with timers and no new traffic are taken over: they fire in time',
  39: 'a run that succeeds while the rescuer is at it stands as succeeded',
  41: 'two rescuers of one run: one transition, one attempt',
}

/** These were seen with Redis and with Kafka, so one of their tests at least is against the real one. */
const against: Readonly<Record<number, RegExp>> = { 33: /redis/, 35: /kafka/ }

test('every incident has its test', () => {
  const files = readRepository(fileURLToPath(new URL('../..', import.meta.url)))
  const isTest = ({ path }: { path: string }) => /^test\/.*\.ts$/.test(path) && !path.startsWith('test/tidy/')
  const titles = files
    .filter(isTest)
    .flatMap(({ path, text }) =>
      [
        ...text.matchAll(/(?:test|it)(?:\.each\([^)]*\))?\(\s*['`]((?:incident \d+, )*incident \d+): /g),
      ].flatMap(([, numbers = '']) =>
        [...numbers.matchAll(/\d+/g)].map(([number]) => ({ path, number: Number(number) })),
      ),
    )
  const named = new Set(titles.map(({ number }) => number))
  const missing = Object.keys(incidents).filter((number) => !named.has(Number(number)))
  expect(missing.map((number) => `${number}: ${incidents[Number(number)]}`)).toEqual([])
  const unknown = [...named].filter((number) => !(number in incidents))
  expect(unknown, 'numbers that no report has').toEqual([])
  for (const [number, parts] of Object.entries(against)) {
    const its = titles.filter((title) => title.number === Number(number)).map(({ path }) => path)
    expect(
      its.filter((path) => parts.test(path)),
      `tests of incident ${number}`,
    ).not.toEqual([])
  }
})
