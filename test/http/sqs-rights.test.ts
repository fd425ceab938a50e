// The rights that docs/how-to/sqs.md gives to each role: enough for all that it does with SQS, and not one
// more than it uses.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually, newId } from '../support/running.ts'
import { openSqsCarrier } from '../support/sqs-carrier.ts'
import { type SqsServer, startSqsServer } from '../support/sqs-server.ts'

const page = readFileSync(new URL('../../docs/how-to/sqs.md', import.meta.url), 'utf8')
const [scheduler = [], worker = [], listing = []] = [...page.matchAll(/```json\n([^`]*)```/g)].map(
  ([, text = '']) => {
    const policy = JSON.parse(text) as { Statement: { Action: string[] }[] }
    return policy.Statement.flatMap(({ Action }) => Action.map((action) => action.replace('sqs:', '')))
  },
)

let server: SqsServer
beforeAll(async () => {
  server = await startSqsServer()
})
afterAll(() => server.close())

/** The actions that are called while `work` is done, and nothing but these is allowed. */
async function using(rights: readonly string[], work: () => Promise<void>): Promise<readonly string[]> {
  const names = ['SendMessage', 'ReceiveMessage', 'DeleteMessage', 'ChangeMessageVisibility']
  const counted = [...names, 'GetQueueAttributes', 'ListQueues']
  const calls = (name: string): number => server.calls(name) + server.calls(`${name}Batch`)
  const before = new Map(counted.map((name) => [name, calls(name)]))
  server.allow(rights)
  await work()
  server.allow(undefined)
  return counted.filter((name) => calls(name) > (before.get(name) ?? 0))
}

const announcement = () => ({ queue: 'mail', runs: [{ runId: newId(), tag: 1 }] })
const never = new AbortController().signal

it('of a scheduler', async () => {
  const url = server.createQueue('rights')
  const used = await using(scheduler, async () => {
    const { link, announcements } = await openSqsCarrier(url)
    expect(await announcements.announce([announcement()])).toEqual({ refused: [] })
    await link.close()
  })
  expect(used.toSorted()).toEqual([...scheduler].toSorted())
})

it('of a worker', async () => {
  const name = 'rights-of-workers'
  const url = server.createQueue(name)
  const sender = await openSqsCarrier(url)
  await sender.announcements.announce([announcement(), announcement()])
  server.send(name, 'none of ours')
  await sender.link.close()
  const used = await using(worker, async () => {
    const { link, announcements, events } = await openSqsCarrier(url)
    const inbox = announcements.open('*')
    await inbox.start()
    const [first, second] = await eventually(async () => {
      const taken = await inbox.take(100, 1_000, never)
      return taken.length === 2 && taken
    }, 'both came')
    if (first !== undefined) await inbox.settle([first])
    if (second !== undefined) await inbox.release([second])
    expect(events.of('announcements_discarded')).toHaveLength(1)
    await eventually(() => server.look(name).ready.length === 1, 'one is released, the others are gone')
    expect(events.of('part_changed')).toMatchObject([{ state: 'up' }])
    await inbox.close()
    await link.close()
  })
  expect(used.toSorted()).toEqual([...worker].toSorted())
})

it('of a worker that serves every queue, where each has its own', async () => {
  server.createQueue('rights-each-mail')
  const template = server.urlOf('rights-each-{queue}')
  const sender = await openSqsCarrier(template)
  await sender.announcements.announce([announcement()])
  await sender.link.close()
  await using([...worker, ...listing], async () => {
    const { link, announcements, events } = await openSqsCarrier(template)
    const inbox = announcements.open('*')
    await inbox.start()
    expect(await inbox.take(10, 5_000, never)).toHaveLength(1)
    expect(events.of('carrier_refused')).toEqual([])
    await inbox.close()
    await link.close()
  })
})
