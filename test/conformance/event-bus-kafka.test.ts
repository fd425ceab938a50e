// Events with Kafka on a real broker: the bus, held to the suite that every bus must pass; what others read
// of what has ended, through every fault of the broker; and what wakes the resolvers, whoever wrote it.
import { type CloudEvent, cloudEventSchema } from '@belfry/contract'
import { Producer } from '@platformatic/kafka'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  createEventWakes,
  createKafkaEventBus,
  createKafkaPublisher,
  type EventWakes,
} from '../../packages/server/src/adapters/kafka/kafka-events.ts'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { createEventRelay, type EventRelay } from '../../packages/server/src/engine/event-relay.ts'
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresOutgoingEvents } from '../../packages/server/src/postgres/outgoing-events.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'
import { describeEventBus } from './event-bus.ts'

const parts = { clock: realClock, random: realRandom, events: recordEvents() }
const topic = 'belfry.events'
const allShards = { heldShards: () => Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 })) }

describeNeeding('kafka', 'events with Kafka', (jars) => {
  let server: KafkaServer
  let link: KafkaLink
  const opened: { close(): Promise<void> }[] = []
  beforeAll(async () => {
    server = await startKafkaServer(jars)
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 4 }
    link = createKafkaLink({ ...parts, settings })
    await link.start()
    await link.ensureTopics([topic])
  }, kafkaStartMs)
  afterEach(async () => {
    for (const each of opened.splice(0).toReversed()) await each.close()
  })
  afterAll(async () => {
    await link.close()
    await server.close()
  })

  async function wakesOf(): Promise<EventWakes> {
    const wakes = createEventWakes({ ...parts, link })
    await wakes.start()
    opened.push(wakes)
    return wakes
  }

  describeEventBus('Kafka', async ({ fixture, hints }) => {
    const wakes = createEventWakes({ ...parts, link })
    const open = () => {
      const resolving = createPostgresWorkflowResolving(fixture.database.open())
      return createKafkaEventBus(createPostgresEventBus({ resolving, hints }), wakes)
    }
    return { bus: open(), another: open, lose: async () => {}, drop: async () => {} }
  })

  describe('what leaves', () => {
    let rig: WorkflowRig
    let relay: EventRelay
    afterEach(async () => {
      await relay.stop()
      await rig.close()
    })

    async function startRelay(): Promise<void> {
      rig = await openWorkflowRig()
      const outgoing = createPostgresOutgoingEvents(rig.fixture.database.open(), 'kafka:belfry')
      await outgoing.position()
      const publisher = createKafkaPublisher(link)
      const elector = allShards
      relay = createEventRelay({ ...parts, outgoing, publisher, installation: 'belfry', elector })
      await relay.start()
    }

    /** A member of a group of its own, as of somebody who listens beside Belfry. */
    async function listen() {
      const inbox = openKafkaInbox({
        ...parts,
        link,
        name: 'listener',
        groupId: `others.${Date.now()}`,
        wants: (each) => each === topic,
        // it commits nothing: after a fault it reads all again
        from: 'earliest',
        capacity: 1_000,
      })
      await inbox.start()
      opened.push(inbox)
      await eventually(() => inbox.up, 'somebody listens', 30_000)
      const read: CloudEvent[] = []
      return {
        read,
        until: (done: (read: readonly CloudEvent[]) => boolean) =>
          eventually(
            async () => {
              for (const { value } of await inbox.take(1_000, 100)) {
                read.push(cloudEventSchema.parse(JSON.parse(String(value))))
              }
              return done(read)
            },
            'all has come',
            45_000,
          ),
      }
    }

    /** A workflow run of two tasks, one after the other, from beginning to end. */
    async function endWorkflowRun(): Promise<string> {
      const tasks = [
        { id: 'a', job: 'x' },
        { id: 'b', job: 'x', needs: ['a'] },
      ]
      const id = await rig.begin({ tasks })
      while ((await rig.standing(id)).state === null) {
        await rig.resolver.runOnce()
        for (const run of await rig.claim()) await rig.end(run, 'succeeded')
      }
      return id
    }

    const typesOf = (read: readonly CloudEvent[], id: string) => {
      const seen = new Set<string>()
      return read
        .filter(({ data }) => data.workflowRunId === id)
        .filter((event) => !seen.has(event.id) && seen.add(event.id))
        .map(({ type }) => type)
    }
    const wanted = ['belfry.run.succeeded', 'belfry.run.succeeded', 'belfry.workflow_run.succeeded']
    const isWhole = (ids: readonly string[]) => (read: readonly CloudEvent[]) =>
      ids.every((id) => typesOf(read, id).length >= wanted.length)

    it('is CloudEvents, in order for each workflow run', async () => {
      await startRelay()
      const { read, until } = await listen()
      const ids: string[] = []
      for (let count = 0; count < 5; count++) ids.push(await endWorkflowRun())
      await until(isWhole(ids))
      for (const id of ids) expect(typesOf(read, id)).toEqual(wanted)
    })

    it(
      'comes all the same when the broker was killed meanwhile',
      async () => {
        await startRelay()
        const { read, until } = await listen()
        const before = await endWorkflowRun()
        await until(isWhole([before]))
        await server.kill()
        const meanwhile = await endWorkflowRun()
        await server.start()
        await until(isWhole([meanwhile]))
        expect(typesOf(read, meanwhile)).toEqual(wanted)
      },
      kafkaStartMs,
    )

    it(
      'goes on to a new topic when its own was deleted',
      async () => {
        await startRelay()
        await link.admin((admin) => admin.deleteTopics({ topics: [topic] }))
        const deleted = await endWorkflowRun()
        await eventually(
          async () => (await link.admin((admin) => admin.listTopics())).includes(topic),
          'the topic is made again',
          20_000,
        )
        const { until } = await listen()
        const after = await endWorkflowRun()
        await until(isWhole([after]))
        expect(after).not.toBe(deleted)
      },
      kafkaStartMs,
    )
  })

  it('wakes one of the resolvers when something ends, and goes on behind what is no event', async () => {
    const wakes = await wakesOf()
    const woken = { workflows: 0, runs: 0 }
    wakes.subscribe('workflows', () => woken.workflows++)
    const off = wakes.subscribe('runs', () => woken.runs++)
    const id = '0192a1b2-0000-7000-8000-000000000001'
    await eventually(
      async () => {
        await link.send(topic, [{ key: id, value: JSON.stringify({ data: { workflowRunId: id } }) }])
        return woken.workflows > 0
      },
      'the resolver of workflows is woken',
      30_000,
    )
    off()
    const producer = new Producer({ clientId: 'hand', bootstrapBrokers: [server.brokers] })
    await producer.send({
      messages: [
        { topic, key: Buffer.from([0xff]) },
        { topic, value: Buffer.alloc(900_000, 0x7b) },
        { topic, value: Buffer.from('{"workflowRunId":"x') },
        { topic, value: Buffer.from('\u0000') },
      ],
    })
    await producer.close()
    const before = woken.workflows
    await link.send(topic, [{ key: id, value: JSON.stringify({ data: { workflowRunId: id } }) }])
    await eventually(() => woken.workflows > before, 'it goes on behind them', 10_000)
    expect(woken.runs).toBe(0)
  })
})
