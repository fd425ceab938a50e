/**
 * The proof that Kafka may lose everything (G7): three real Belfry processes on Postgres and Kafka, 2,000
 * planned times over 40 seconds, while the broker is killed, frozen and started again, topics are deleted,
 * messages are written by hand and twice, and processes are killed or stopped past their lease, so that the
 * group is shared out anew. Nothing may be lost or run twice without a reason; before the first fault runs
 * are claimed by what was announced, and after the last one again; and whoever reads the topic of events gets
 * each end, over all of that.
 */
import { expect, it } from 'vitest'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { eventsTopic, runsTopic } from '../../packages/server/src/adapters/kafka/kafka-topics.ts'
import { announcementText } from '../../packages/server/src/engine/announcement-text.ts'
import { startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, newId, recordEvents } from '../support/running.ts'
import { type Arena, arenaHarness } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { actAt, killAndRestart, plan, settleMs, windowMs } from './support/planned-times.ts'
import { untilQuiet } from './support/quiet.ts'

const harness = arenaHarness()
const topic = runsTopic('belfry', 'default')
const names = ['a', 'b', 'c']

describeNeeding('kafka', 'with Kafka', (jars) => {
  it('incident 35: loses nothing while Kafka and its members come and go', { timeout: 480_000 }, async () => {
    const kafka = await startKafkaServer(jars)
    const arena = await harness.open({ env: { KAFKA_BROKERS: kafka.brokers } })
    harness.defer(() => kafka.close())
    const settings = { brokers: [kafka.brokers], prefix: 'belfry', partitions: 4 }
    const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
    await link.start()
    harness.defer(() => link.close())
    // otherwise the first run makes it, and workers find one that is new within seconds
    await link.ensureTopics([topic])
    for (const name of names) await arena.start(name)
    const told = await listen(link)
    const write = (...values: string[]) =>
      link
        .send(
          topic,
          values.map((value) => ({ value })),
        )
        .catch(() => undefined)
    const allHear = async (): Promise<boolean> => {
      await write(...forged(4))
      const counts = await Promise.all(names.map((name) => readClaims(arena, name)))
      return counts.every(({ gone }) => gone > 0)
    }
    await eventually(allHear, 'each process hears what is announced', 60_000)
    const { firstMs, expected, atMostOnce } = await plan(arena.client(), `${arena.ledger.url}/work`)

    let atFirst: readonly Claims[] = []
    await actAt(firstMs, [
      [2, () => write('x', '{}', ...forged(500))],
      [4, async () => (atFirst = await Promise.all(names.map((name) => readClaims(arena, name))))],
      [4, () => killAndRestart(arena, 'a')],
      [7, () => link.admin((admin) => admin.deleteTopics({ topics: [topic] }))],
      [10, async () => write(...(await everythingThatWaits(arena)))],
      [12, () => kafka.kill()],
      [14, () => killAndRestart(arena, 'b')],
      [18, () => kafka.start()],
      [22, () => arena.nodes.get('c')?.signal('SIGSTOP')],
      [24, () => kafka.pause()],
      [28, () => kafka.goOn()],
      [30, () => arena.nodes.get('c')?.signal('SIGCONT')],
      [32, async () => write(...(await everythingThatWaits(arena)), ...forged(500))],
      [33, () => killAndRestart(arena, 'a')],
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
    const claimedAtFirst = atFirst.reduce((sum, { claimed }) => sum + claimed, 0)
    // of some 220: a machine that is slow finds more of them directly
    expect(claimedAtFirst, 'claimed as announced before the first fault').toBeGreaterThan(10)
    const before = (await readClaims(arena, 'c')).claimed
    const claimsAgain = async (): Promise<boolean> => {
      await arena.client().runs.create({ job: 'least' })
      return (await readClaims(arena, 'c')).claimed > before
    }
    await eventually(claimsAgain, 'runs are claimed as announced again', 60_000)
    await eventually(async () => (await untold(arena, told)).length === 0, 'all ends are told', 60_000)
  })
})

/** Ids of the events that somebody reads beside Belfry, as a member of a group of his own. */
async function listen(link: KafkaLink): Promise<ReadonlySet<string>> {
  const told = new Set<string>()
  const inbox = openKafkaInbox({
    link,
    clock: realClock,
    random: realRandom,
    events: recordEvents(),
    name: 'listener',
    groupId: 'others',
    wants: (each) => each === eventsTopic('belfry'),
    from: 'earliest',
    capacity: 1_000,
  })
  const ending = new AbortController()
  await inbox.start()
  const read = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const messages = await inbox.take(1_000, 500, ending.signal)
      for (const { value } of messages) told.add((JSON.parse(String(value)) as { id: string }).id)
      await inbox.commit(messages)
    }
  }
  const reading = read()
  harness.defer(async () => {
    ending.abort()
    await reading
    await inbox.close()
  })
  return told
}

/** Attempts that have ended, and of which nothing was heard. The topic of events was not deleted. */
async function untold(arena: Arena, told: ReadonlySet<string>): Promise<readonly string[]> {
  const ended = await arena.rows<{ id: string }>(
    "SELECT run_id::text || '.' || number AS id FROM belfry.attempt",
  )
  return ended.map(({ id }) => id).filter((id) => !told.has(id))
}

interface Claims {
  readonly claimed: number
  readonly gone: number
}

/** Runs of the claims of a process, by what came of them (belfry_announced_claims_total). */
async function readClaims(arena: Arena, name: string): Promise<Claims> {
  const { opsUrl = '' } = arena.nodes.get(name) ?? {}
  const text = await (await fetch(`${opsUrl}/metrics`)).text()
  const counts = [...text.matchAll(/^belfry_announced_claims_total\{.*outcome="(\w+)".*\} (\d+)$/gm)]
  const count = (of: string) =>
    counts.reduce((total, [, outcome, runs]) => total + (outcome === of ? Number(runs) : 0), 0)
  return { claimed: count('claimed'), gone: count('gone') }
}

const forged = (count: number): string[] =>
  Array.from({ length: count }, (_, tag) =>
    announcementText({ queue: 'default', runs: [{ runId: newId(), tag: -tag }] }),
  )

/** What is true, twice, and what is not, of what waits and of what runs. */
async function everythingThatWaits(arena: Arena): Promise<string[]> {
  const rows = await arena.rows<{ run_id: string; tag: number }>(
    'SELECT run_id, tag FROM belfry.ready LIMIT 200',
  )
  return rows.flatMap(({ run_id: runId, tag }) => {
    const text = (queue: string, at: number) => announcementText({ queue, runs: [{ runId, tag: at }] })
    return [text('default', tag), text('default', tag), text('default', tag + 1), text('other', tag)]
  })
}
