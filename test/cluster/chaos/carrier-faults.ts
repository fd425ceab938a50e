// Kafka and SQS away, emptied, or with members that come and go: they carry announcements and events, and may
// lose everything at any moment.
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { Admin, Consumer, MessagesStreamModes } from '@platformatic/kafka'
import type { KafkaServer } from '../../support/kafka-server.ts'
import type { SqsFault, SqsServer } from '../../support/sqs-server.ts'
import { type Fault, hit, hitAtLeast, noticedAway } from './fault.ts'
import type { World } from './world.ts'

function kafkaOf(world: World): KafkaServer {
  const { kafka } = world.stores
  if (kafka === undefined) throw new Error('there is no Kafka')
  return kafka
}

function sqsOf(world: World): SqsServer {
  const { sqs } = world.stores
  if (sqs === undefined) throw new Error('there is no SQS')
  return sqs
}

export const killKafka: Fault = {
  async wreak(world) {
    await world.until(2 + world.draw(10) / 10)
    await kafkaOf(world).kill()
    world.note('kill -9 the broker')
    await world.until(8)
    await kafkaOf(world).start()
    world.note('the broker is back')
  },
  missed: noticedAway('kafka'),
}

async function withAdmin<T>(world: World, act: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({ clientId: 'chaos', bootstrapBrokers: [kafkaOf(world).brokers] })
  try {
    return await act(admin)
  } finally {
    await admin.close()
  }
}

/** Every topic that Belfry has made, with what is in it. */
export const deleteTopics: Fault = {
  async wreak(world) {
    for (const second of [3, 7]) {
      await world.until(second + world.draw(15) / 10)
      await withAdmin(world, async (admin) => {
        const topics = (await admin.listTopics()).filter((name) => name.startsWith('belfry.'))
        if (topics.length > 0) await admin.deleteTopics({ topics })
        hit(world, topics.length)
        world.note(`deleted ${topics.join(', ') || 'no topic'}`)
      })
    }
  },
  missed: hitAtLeast(2, 'topics deleted'),
}

/** A stranger joins the group of the workers and leaves it, again and again, and commits nothing. */
export const rebalance: Fault = {
  async wreak(world) {
    await world.until(1)
    while (Date.now() < world.firstMs() + 11_000) {
      const joined = await joinAndLeave(world).catch(() => false)
      if (joined) hit(world)
      await wait(200)
    }
    world.note('the stranger is gone')
  },
  missed: hitAtLeast(3, 'times joined and left'),
}

async function joinAndLeave(world: World): Promise<boolean> {
  const [topic] = await withAdmin(world, async (admin) =>
    (await admin.listTopics()).filter((name) => name.startsWith('belfry.runs.')),
  )
  if (topic === undefined) return false
  const consumer = new Consumer({
    clientId: `stranger-${randomUUID()}`,
    groupId: 'belfry.workers',
    bootstrapBrokers: [kafkaOf(world).brokers],
    autocommit: false,
    sessionTimeout: 6_000,
    heartbeatInterval: 500,
  })
  // one that leaves in the middle of a rebalance is told of it as of a fault
  consumer.on('error', () => undefined)
  try {
    const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.LATEST })
    stream.on('error', () => undefined)
    await wait(300 + world.draw(500))
    await stream.close()
    return true
  } finally {
    await consumer.close(true)
  }
}

const troubles: readonly SqsFault[] = ['cut', 'hangs', 'throttled', 'broken', 'denied']

/** Away, silent, throttled, broken and denied, two seconds each, in an order that is drawn. */
export const troubleSqs: Fault = {
  async wreak(world) {
    const sqs = sqsOf(world)
    const order = [...troubles]
    for (let second = 1; second < 11; second += 2) {
      await world.until(second)
      const [kind = 'cut'] = order.splice(world.draw(order.length), 1)
      sqs.fault(kind)
      world.note(`SQS: ${kind}`)
    }
    await world.until(11)
    sqs.fault('none')
    world.note('SQS is as it should be')
  },
  missed: noticedAway('sqs'),
}

/** Every announcement that waits is lost. */
export const emptySqs: Fault = {
  async wreak(world) {
    for (const second of [2, 4.5, 7, 9.5]) {
      await world.until(second + world.draw(15) / 10)
      sqsOf(world).empty()
      world.note('purged')
    }
  },
  missed: async (world) => (sqsOf(world).calls('SendMessageBatch') > 0 ? undefined : 'nothing was announced'),
}
