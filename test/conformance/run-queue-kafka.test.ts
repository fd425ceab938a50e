// The run queue on Kafka, held to the suite that every run queue passes: the announcements go by a real
// broker.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createKafkaAnnouncements } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { type AnnouncedRig, openAnnouncedRig } from '../support/announced-rig.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { recordEvents } from '../support/running.ts'
import { describeRunQueue } from './run-queue.ts'

describeNeeding('kafka', 'the run queue on Kafka', (jars) => {
  let server: KafkaServer
  let link: KafkaLink
  let rig: AnnouncedRig
  beforeAll(async () => {
    server = await startKafkaServer(jars)
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 4 }
    link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
    await link.start()
  }, kafkaStartMs)
  afterAll(async () => {
    await rig.close()
    await link.close()
    await server.close()
  })

  describeRunQueue('Kafka', async (fixture) => {
    const parts = { link, clock: realClock, random: realRandom, events: recordEvents() }
    rig = await openAnnouncedRig(fixture, createKafkaAnnouncements(parts), ['default', 'a', 'b', 'c'])
    return rig.queue
  })

  test('went by what was announced', () => {
    const claims = rig.events.of('announced_claim')
    const total = (of: 'claimed' | 'direct') => claims.reduce((sum, claim) => sum + claim[of], 0)
    expect(total('claimed')).toBeGreaterThan(200)
  })
})
