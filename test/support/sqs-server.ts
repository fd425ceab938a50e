// An SQS for one test: fauxqs, behind a door that can be away (sqs-door.ts).
import { type FauxqsServer, startFauxqs } from 'fauxqs'
import { openSqsDoor, type SqsDoor, type SqsFault } from './sqs-door.ts'

export type { SqsFault }

export type SqsServer = SqsDoor & {
  /** Makes a queue and answers its URL, at the door. A name that ends in `.fifo` makes a FIFO queue. */
  readonly createQueue: (name: string, attributes?: Readonly<Record<string, string>>) => string
  readonly deleteQueue: (name: string) => void
  /** The URL of a queue that may not be there. */
  readonly urlOf: (name: string) => string
  /** What a Belfry process needs to use it. */
  readonly env: (queueUrl: string) => Record<string, string>
  readonly send: (name: string, body: string, groupId?: string) => void
  /** Messages that wait in the queue, and how many of its messages somebody has in hand. */
  readonly look: (name: string) => SqsLook
  /** Loses what it holds, as if the queue had been purged. */
  readonly empty: () => void
}

export type SqsLook = {
  readonly ready: readonly {
    readonly body: string
    readonly groupId: string | undefined
    readonly deduplicationId: string | undefined
  }[]
  readonly inFlight: number
  /** When the last of those comes back by itself, from now. */
  readonly heldForMs: number
}

const dummy = { accessKeyId: 'AKIAEXAMPLE', secretAccessKey: 'sqs-secret-of-the-tests' }

export async function startSqsServer(): Promise<SqsServer> {
  const emulator = await startFauxqs({ port: 0, logger: false })
  const door = await openSqsDoor(emulator.port)
  const urlOf = (name: string): string => `http://127.0.0.1:${door.port}/000000000000/${name}`
  return {
    ...door,
    urlOf,
    createQueue(name, attributes = {}) {
      const fifo = name.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
      emulator.createQueue(name, { attributes: { ...fifo, ...attributes } })
      return urlOf(name)
    },
    deleteQueue: (name) => emulator.deleteQueue(name),
    env: (queueUrl) => ({
      SQS_QUEUE_URL: queueUrl,
      BELFRY_SQS_REGION: 'us-east-1',
      BELFRY_SQS_ACCESS_KEY_ID: dummy.accessKeyId,
      BELFRY_SQS_SECRET_ACCESS_KEY: dummy.secretAccessKey,
    }),
    send: (name, body, groupId) => sendByHand(emulator, name, body, groupId),
    look: (name) => lookInto(emulator, name),
    empty: () => emulator.reset(),
    async close() {
      await door.close()
      await emulator.stop()
    },
  }
}

/** What SQS itself refuses is not sent: it can never be found there. */
function sendByHand(emulator: FauxqsServer, name: string, body: string, groupId?: string): void {
  if (!/^[\t\n\r\u0020-\uD7FF\uE000-\uFFFD]*$/.test(body)) return
  const fifo = groupId === undefined ? {} : { messageGroupId: groupId, messageDeduplicationId: body }
  emulator.sendMessage(name, body, fifo)
}

function lookInto(emulator: FauxqsServer, name: string): SqsLook {
  const found = emulator.inspectQueue(name)
  if (found === undefined) throw new Error(`there is no queue ${name}`)
  const { ready, inflight } = found.messages
  return {
    ready: ready.map(({ body, messageGroupId, messageDeduplicationId }) => ({
      body,
      groupId: messageGroupId,
      deduplicationId: messageDeduplicationId,
    })),
    inFlight: inflight.length,
    heldForMs: Math.max(0, ...inflight.map((each) => each.visibilityDeadline - Date.now())),
  }
}
