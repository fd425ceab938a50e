/**
 * The proof that SQS may lose everything (G7): three real Belfry processes on Postgres and SQS, 2,000 planned
 * times over 40 seconds, while a FIFO queue is cut off, frozen, throttled, emptied, filled with garbage,
 * deleted and made again, and processes are killed or stopped. Nothing may be lost. Standard queues: chaos/.
 */
import { expect, it } from 'vitest'
import { startSqsServer } from '../support/sqs-server.ts'
import { arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { actAt, killAndRestart, plan, settleMs, windowMs } from './support/planned-times.ts'
import { untilQuiet } from './support/quiet.ts'

const harness = arenaHarness()
const garbage = ['x', '{}', '{"queue":"default","runs":[["not an id",1]]}', '[['.repeat(1_000)]

it('loses nothing while SQS and the processes come and go', { timeout: 480_000 }, async () => {
  const sqs = await startSqsServer()
  const name = 'belfry.fifo'
  const url = sqs.createQueue(name)
  const arena = await harness.open({ env: sqs.env(url) })
  harness.defer(() => sqs.close())
  for (const each of ['a', 'b', 'c']) await arena.start(each)
  const { firstMs, expected, atMostOnce } = await plan(arena.client(), `${arena.ledger.url}/work`)
  const litter = (): void => {
    for (const text of garbage) sqs.send(name, text, 'by hand')
  }

  await actAt(firstMs, [
    [2, () => sqs.empty()],
    [4, litter],
    [6, () => killAndRestart(arena, 'a')],
    [9, () => sqs.fault('cut')],
    [12, () => killAndRestart(arena, 'b')],
    [14, () => sqs.fault('none')],
    [17, () => sqs.fault('throttled')],
    [20, () => sqs.fault('none')],
    [21, () => arena.nodes.get('c')?.signal('SIGSTOP')],
    [22, () => sqs.deleteQueue(name)],
    [24, () => sqs.createQueue(name)],
    [26, () => sqs.fault('hangs')],
    [28, () => arena.nodes.get('c')?.signal('SIGCONT')],
    [30, () => sqs.fault('none')],
    [32, litter],
    [34, () => sqs.fault('denied')],
    [36, () => sqs.fault('none')],
  ])
  const sql = await untilQuiet(arena, firstMs + windowMs + settleMs)
  harness.defer(() => sql.end())

  const faults = await findFaults({
    sql,
    expected,
    calls: arena.ledger.calls,
    atMostOnceScheduleIds: atMostOnce,
  })
  const log = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
  expect(faults.slice(0, 20), log).toEqual([])
  const logged = [...arena.nodes.values()].flatMap((node) => node.log).join('\n')
  expect(logged).not.toContain(sqs.env(url)['BELFRY_SQS_SECRET_ACCESS_KEY'])
  expect(sqs.calls('SendMessageBatch'), 'it was used').toBeGreaterThan(20)
})
