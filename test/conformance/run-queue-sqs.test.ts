// The run queue on SQS, standard and FIFO, held to the suite that every run queue passes.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AnnouncedRig, openAnnouncedRig } from '../support/announced-rig.ts'
import { openSqsCarrier, type SqsCarrier } from '../support/sqs-carrier.ts'
import { type SqsServer, startSqsServer } from '../support/sqs-server.ts'
import { describeRunQueue } from './run-queue.ts'

describe.each([
  ['standard', 'belfry'],
  ['FIFO', 'belfry.fifo'],
])('the run queue on SQS, %s', (kind, name) => {
  let server: SqsServer
  let carrier: SqsCarrier
  let rig: AnnouncedRig
  beforeAll(async () => {
    server = await startSqsServer()
    carrier = await openSqsCarrier(server.createQueue(name))
  })
  afterAll(async () => {
    await rig.close()
    await carrier.link.close()
    await server.close()
  })

  describeRunQueue(`SQS ${kind}`, async (fixture) => {
    rig = await openAnnouncedRig(fixture, carrier.announcements, ['default', 'a', 'b', 'c'])
    return rig.queue
  })

  test('went by what was announced', () => {
    const claims = rig.events.of('announced_claim')
    const total = (of: 'claimed' | 'direct') => claims.reduce((sum, claim) => sum + claim[of], 0)
    expect(total('claimed')).toBeGreaterThan(100)
  })
})
