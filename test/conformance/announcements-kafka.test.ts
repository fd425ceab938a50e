// Announcements by Kafka, held to the suite that every carrier passes, on a real broker.
import { createKafkaAnnouncements } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { runsTopic } from '../../packages/server/src/adapters/kafka/kafka-topics.ts'
import { startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { recordEvents } from '../support/running.ts'
import { describeAnnouncements } from './announcements.ts'

describeNeeding('kafka', 'announcements by Kafka', (jars) => {
  describeAnnouncements('Kafka', async () => {
    const server = await startKafkaServer(jars)
    const links: KafkaLink[] = []
    const parts = { clock: realClock, random: realRandom, events: recordEvents() }
    async function openLink(): Promise<KafkaLink> {
      const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 4 }
      const link = createKafkaLink({ ...parts, settings })
      links.push(link)
      await link.start()
      return link
    }
    const byHand = await openLink()
    return {
      open: async () => createKafkaAnnouncements({ ...parts, link: await openLink() }),
      write: (queue, value) => byHand.send(runsTopic('belfry', queue), [{ value }]),
      away: () => server.kill(),
      back: () => server.start(),
      async drop() {
        await Promise.all(links.map((link) => link.close()))
        await server.close()
      },
    }
  })
})
