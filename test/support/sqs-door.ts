// The door of a test to an SQS emulator, which can do what an emulator does not: throttle, refuse, break,
// hang, and be away. What it lets through is the emulator's own answer.
import { once } from 'node:events'
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** `none`: as it should be. The others are what AWS answers, or does not. */
export type SqsFault = 'none' | 'throttled' | 'denied' | 'broken' | 'hangs' | 'cut'

export type SqsDoor = {
  readonly port: number
  /** How many calls of an action came in, answered or not, as `ReceiveMessage`. */
  readonly calls: (action: string) => number
  /** Only calls of this action, or every call. */
  readonly fault: (kind: SqsFault, action?: string) => void
  /** From now on all other actions are denied; their names are those of a policy. Undefined: none is. */
  readonly allow: (actions: readonly string[] | undefined) => void
  readonly close: () => Promise<void>
}

const answers = {
  throttled: [400, 'com.amazon.coral.availability#ThrottlingException', 'Rate exceeded'],
  denied: [403, 'com.amazon.coral.service#AccessDeniedException', 'User is not authorized to perform this'],
  broken: [500, 'com.amazonaws.sqs#InternalFailure', 'We encountered an internal error'],
} as const

/** `behind` is the port of the emulator, on loopback. */
export async function openSqsDoor(behind: number): Promise<SqsDoor> {
  const calls = new Map<string, number>()
  let faulty: { readonly kind: SqsFault; readonly action?: string | undefined } = { kind: 'none' }
  let allowed: readonly string[] | undefined
  const door = createServer((request, response) => {
    const action = String(request.headers['x-amz-target'] ?? '').replace(/^AmazonSQS\./, '')
    calls.set(action, (calls.get(action) ?? 0) + 1)
    if (allowed?.includes(action.replace(/Batch$/, '')) === false) return refuse(response, answers.denied)
    const kind = faulty.action === undefined || faulty.action === action ? faulty.kind : 'none'
    if (kind === 'none') pass(behind, request, response)
    else if (kind === 'cut') request.socket.destroy()
    else if (kind !== 'hangs') refuse(response, answers[kind])
  })
  const sockets = new Set<Socket>()
  door.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  await once(door.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (door.address() as AddressInfo).port,
    calls: (action) => calls.get(action) ?? 0,
    fault(kind, action) {
      faulty = { kind, action }
      // who waits in a long poll is to feel it too
      if (kind === 'cut') for (const socket of sockets) socket.destroy()
    },
    allow(actions) {
      allowed = actions
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      door.close()
      await once(door, 'close')
    },
  }
}

function pass(port: number, request: IncomingMessage, response: ServerResponse): void {
  const { method, url, headers } = request
  const onward = forward({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  onward.once('error', () => response.destroy())
  // a caller that gave up must not take messages with it
  response.once('close', () => onward.destroy())
  request.pipe(onward)
}

function refuse(response: ServerResponse, [status, type, message]: readonly [number, string, string]): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' })
  response.end(JSON.stringify({ __type: type, message }))
}
