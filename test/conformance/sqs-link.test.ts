// Whether SQS is there, as an operator sees it: said at the start too, with the cause and the fix, noticed
// where it falls silent, and healed by itself.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { lookAt, type SqsLink } from '../../packages/server/src/adapters/sqs/sqs-link.ts'
import { eventually } from '../support/running.ts'
import { openSqsCarrier, sqsSecret } from '../support/sqs-carrier.ts'
import { type SqsServer, startSqsServer } from '../support/sqs-server.ts'

let server: SqsServer
beforeAll(async () => {
  server = await startSqsServer()
})
afterAll(() => server.close())
beforeEach(() => server.fault('none'))

async function open(queueUrl: string) {
  const { link, events } = await openSqsCarrier(queueUrl)
  return { link, changes: () => events.of('part_changed'), throttles: () => events.of('part_throttled') }
}

const look = (link: SqsLink, url: string) => link.call(lookAt(url))

it.each([
  ['nobody there', () => 'http://127.0.0.1:1/0/q', /ECONNREFUSED/],
  ['no such host', () => 'http://no.such.host.invalid/0/q', /ENOTFOUND|EAI_AGAIN/],
  ['no such queue', () => server.urlOf('none'), /create-queue --queue-name none/],
  [
    'no such FIFO queue',
    () => server.urlOf('none.fifo'),
    /--queue-name none.fifo --attributes FifoQueue=true/,
  ],
])('says at the start that it is away, and why: %s', async (_, urlOf, why) => {
  const { link, changes } = await open(urlOf())
  expect(link.up).toBe(false)
  expect(changes()).toMatchObject([{ part: 'sqs', state: 'away' }])
  expect(link.stats().fault).toMatch(why)
  expect(link.stats().fault).not.toContain(sqsSecret)
  await expect(look(link, urlOf())).rejects.toThrow(why)
  await link.close()
})

it.each([
  ['denied', /may not sqs:GetQueueAttributes.*docs\/how-to\/sqs.md/],
  ['broken', /internal error/],
  ['cut', /socket hang up|ECONNRESET/],
  ['hangs', /does not answer within 3000 ms/],
] as const)('goes away when a call meets it: %s; and comes back by itself', async (kind, why) => {
  const url = server.createQueue(`meets-${kind}`)
  const { link, changes } = await open(url)
  expect(link.up).toBe(true)
  server.fault(kind)
  await expect(look(link, url)).rejects.toThrow(why)
  expect(link.stats()).toMatchObject({ up: false, fault: expect.stringMatching(why) as unknown })
  const calls = server.calls('GetQueueAttributes')
  await expect(look(link, url), 'it is not tried').rejects.toThrow(why)
  expect(server.calls('GetQueueAttributes')).toBe(calls)
  server.fault('none')
  await eventually(() => link.up, 'it is back')
  expect(changes().map(({ state }) => state)).toEqual(['up', 'away', 'up'])
  await link.close()
})

it('stays up while it is throttled, and counts that', async () => {
  const url = server.createQueue('throttled')
  const { link, throttles } = await open(url)
  server.fault('throttled')
  await expect(look(link, url)).rejects.toMatchObject({ kind: 'throttled' })
  expect(link.up).toBe(true)
  expect(throttles()).toEqual([{ part: 'sqs' }])
  await link.close()
})

it('with a queue for each queue, is not away where one is missing', async () => {
  const template = server.urlOf('each-{queue}')
  const { link } = await open(template)
  expect(link.up).toBe(true)
  await expect(look(link, server.urlOf('each-mail'))).rejects.toMatchObject({ kind: 'no_queue' })
  expect(link.up).toBe(true)
  await link.close()
})
