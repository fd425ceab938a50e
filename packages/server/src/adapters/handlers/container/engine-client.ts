/**
 * Speaks the Docker Engine API (1.41 and newer, Docker and Podman) over its unix socket, and nothing else:
 * small on purpose, because whoever holds this socket is root on the machine. It knows no containers, only
 * calls; what is called is decided in engine-backend.ts. It never throws anything but EngineError.
 *
 * Every call has a limit of time. Answers are read up to a cap; only archives and attached streams are handed
 * on as they come, and whoever takes them bounds them.
 */
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Duplex, Readable } from 'node:stream'

const apiVersion = 'v1.41'
const maxAnswerBytes = 4 * 1024 * 1024
const usualMs = 30_000

/** `status` is that of the answer; undefined: there was none. */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly status: number | undefined

  constructor(message: string, status?: number, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
  }
}

export interface EngineCall {
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Sent as it is, in the place of `body`. */
  readonly tar?: Uint8Array
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

export interface EngineClient {
  /** Resolves with the parsed answer, undefined where it is empty. Rejects for every status from 400. */
  call(method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD', path: string, call?: EngineCall): Promise<unknown>
  /** The body as it comes. */
  open(path: string, call?: EngineCall): Promise<Readable>
  /** The two-way stream of a container; to be asked for before it starts. */
  attach(path: string, call?: EngineCall): Promise<Duplex>
  close(): void
}

type Send = (method: string, path: string, call: EngineCall, headers: Record<string, string>) => ClientRequest

function createSender(socketPath: string, agent: Agent): Send {
  return (method, path, call, headers) => {
    const query = new URLSearchParams(call.query).toString()
    const payload = call.tar ?? (call.body === undefined ? undefined : JSON.stringify(call.body))
    const type = call.tar === undefined ? 'application/json' : 'application/x-tar'
    const content =
      payload === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(payload) }
    const sent = request({
      socketPath,
      agent,
      method,
      path: `/${apiVersion}${path}${query === '' ? '' : `?${query}`}`,
      headers: { host: 'engine', ...content, ...headers },
    })
    const signals = [call.signal, AbortSignal.timeout(call.timeoutMs ?? usualMs)]
    const signal = AbortSignal.any(signals.filter((each) => each !== undefined))
    const late = new EngineError(`The engine did not answer ${method} ${path} in time.`)
    const stop = (): void => void sent.destroy(late)
    signal.addEventListener('abort', stop)
    sent.on('close', () => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
    sent.end(payload)
    return sent
  }
}

export function createEngineClient(socketPath: string): EngineClient {
  // streams keep their connections to themselves; calls are few
  const agent = new Agent({ keepAlive: true, maxSockets: 256, timeout: 60_000 })
  const send = createSender(socketPath, agent)

  function answerTo(sent: ClientRequest): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      sent.on('response', resolve)
      sent.on('error', (error) => reject(unreachable(error, socketPath)))
    })
  }

  return {
    async call(method, path, call = {}) {
      const answer = await answerTo(send(method, path, call, {}))
      const text = await readText(answer)
      const status = answer.statusCode ?? 0
      if (status >= 400) throw refused(method, path, status, text)
      return text === '' ? undefined : parsed(text)
    },
    async open(path, call = {}) {
      const answer = await answerTo(send('GET', path, call, {}))
      const status = answer.statusCode ?? 0
      if (status < 400) return answer
      throw refused('GET', path, status, await readText(answer))
    },
    attach(path, call = {}) {
      const sent = send('POST', path, call, { connection: 'Upgrade', upgrade: 'tcp' })
      return new Promise((resolve, reject) => {
        sent.on('upgrade', (_answer, socket: Duplex, head: Buffer) => {
          if (head.length > 0) socket.unshift(head)
          resolve(socket)
        })
        sent.on('response', (answer) => {
          void readText(answer).then(
            (text) => reject(refused('POST', path, answer.statusCode ?? 0, text)),
            (error: unknown) => reject(unreachable(error, socketPath)),
          )
        })
        sent.on('error', (error) => reject(unreachable(error, socketPath)))
      })
    },
    close: () => agent.destroy(),
  }
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > maxAnswerBytes) break
      chunks.push(chunk)
    }
  } catch (error) {
    throw new EngineError('The answer of the engine broke off.', undefined, error)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Pulling and importing answer a JSON document a line; the last one says how it went. */
function parsed(text: string): unknown {
  const lines = text.trimEnd().split('\n')
  try {
    return JSON.parse(text)
  } catch {
    try {
      return JSON.parse(lines.at(-1) ?? '')
    } catch {
      return text.trimEnd()
    }
  }
}

const shownLength = 400

function refused(method: string, path: string, status: number, text: string): EngineError {
  const answer = parsed(text)
  const said = typeof answer === 'object' && answer !== null && 'message' in answer ? answer.message : text
  const words = (typeof said === 'string' ? said : text).replace(/\s+/g, ' ').slice(0, shownLength)
  return new EngineError(
    `The engine answered ${status} to ${method} ${path.split('?')[0] ?? ''}: ${words}`,
    status,
  )
}

function unreachable(error: unknown, socketPath: string): EngineError {
  if (error instanceof EngineError) return error
  const code = (error as { code?: unknown } | null)?.code
  const why = typeof code === 'string' ? code : String(error)
  return new EngineError(`The engine cannot be reached at ${socketPath} (${why}).`, undefined, error)
}
