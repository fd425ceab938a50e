// A broker that dies while it lets Belfry in: Kafka is away then, and the process goes on. The broker here
// accepts, and hangs up at the first question.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createKafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'

test.each(['plain', 'scram-sha-512'] as const)(
  'a login that is cut off ends no process: %s',
  async (mechanism) => {
    let asked = 0
    const broker = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => {
        asked++
        socket.resetAndDestroy()
      })
    })
    broker.listen(0, '127.0.0.1')
    await once(broker, 'listening')
    onTestFinished(() => void broker.close())
    const uncaught: Error[] = []
    const note = (error: Error): void => void uncaught.push(error)
    process.on('uncaughtExceptionMonitor', note)
    onTestFinished(() => void process.off('uncaughtExceptionMonitor', note))

    const { port } = broker.address() as AddressInfo
    const login = { username: 'belfry', password: 'open-sesame', mechanism }
    const settings = { brokers: [`127.0.0.1:${port}`], prefix: 'belfry', partitions: 1, login }
    const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
    onTestFinished(() => link.close())
    await link.start()
    expect(link.stats().up).toBe(false)
    await eventually(() => asked > 3, 'it is asked again')
    expect(uncaught).toEqual([])
  },
)
