// moto as an SQS for one test, behind a door that can be away (sqs-door.ts).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { openSqsDoor, type SqsDoor } from './sqs-door.ts'

const startMs = 60_000

export type MotoServer = SqsDoor & {
  /** Answers its URL, at the door. */
  readonly createQueue: (name: string) => Promise<string>
  readonly send: (name: string, body: string) => Promise<void>
}

/** `python` is where test/support/services.ts found it. */
export async function startMotoServer(python: string): Promise<MotoServer> {
  const behind = await freePort()
  const args = ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(behind)]
  const child = spawn(python, args, { stdio: 'ignore' })
  const deadline = performance.now() + startMs
  while (!(await answers(behind))) {
    if (performance.now() > deadline || child.exitCode !== null) {
      child.kill('SIGKILL')
      throw new Error('moto did not start.')
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  const door = await openSqsDoor(behind)
  const urlOf = (name: string): string => `http://127.0.0.1:${door.port}/123456789012/${name}`
  return {
    ...door,
    async createQueue(name) {
      const fifo = name.endsWith('.fifo') ? { Attributes: { FifoQueue: 'true' } } : {}
      await say(behind, 'CreateQueue', { QueueName: name, ...fifo })
      return urlOf(name)
    },
    async send(name, body) {
      const id = String(performance.now())
      const fifo = name.endsWith('.fifo') ? { MessageGroupId: id, MessageDeduplicationId: id } : {}
      await say(behind, 'SendMessage', { QueueUrl: urlOf(name), MessageBody: body, ...fifo })
    },
    async close() {
      await door.close()
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}

/** One call as the SDK makes it; the signature is looked at by nobody. */
async function say(port: number, action: string, body: object): Promise<void> {
  const scope = 'AKIAEXAMPLE/20260101/us-east-1/sqs/aws4_request'
  const answer = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `AmazonSQS.${action}`,
      authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`,
    },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  // what SQS itself refuses can never be found there
  if (!answer.ok && !text.includes('InvalidMessageContents')) throw new Error(`moto: ${action}: ${text}`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const answers = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/moto-api/`).then(
    ({ ok }) => ok,
    () => false,
  )
