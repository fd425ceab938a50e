// Reads a stream of events over a real connection, event by event; comments apart.
import { eventually } from './api.ts'

export type StreamEvent = {
  readonly event: string
  readonly id: string | undefined
  readonly data: Readonly<Record<string, unknown>>
}

export type EventStream = {
  readonly status: number
  readonly headers: Headers
  /** Undefined when the stream has ended. Fails after 10 s. */
  readonly next: () => Promise<StreamEvent | undefined>
  readonly rest: () => Promise<StreamEvent[]>
  /** Resolves when one more comment has come. */
  readonly comment: () => Promise<void>
  /** Resolves when the first bytes have come. */
  readonly begun: () => Promise<void>
  readonly close: () => void
}

const open = new Set<AbortController>()

/** Ends all that a test has left open. */
export function closeStreams(): void {
  for (const controller of open) controller.abort()
  open.clear()
}

export async function openStream(url: string, headers: Record<string, string>): Promise<EventStream> {
  const controller = new AbortController()
  open.add(controller)
  const response = await fetch(url, { headers, signal: controller.signal })
  const events: StreamEvent[] = []
  let comments = 0
  let chunks = 0
  let ended = false
  const reading = async (): Promise<void> => {
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      chunks++
      text += decoder.decode(chunk, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = parsed(block)
        if (event === undefined) comments++
        else events.push(event)
      }
    }
  }
  void reading()
    .catch(() => undefined)
    .finally(() => {
      ended = true
    })
  const next = async (): Promise<StreamEvent | undefined> => {
    await eventually(async () => events.length > 0 || ended)
    return events.shift()
  }
  return {
    status: response.status,
    headers: response.headers,
    next,
    async rest() {
      await eventually(async () => ended)
      return events.splice(0)
    },
    async comment() {
      const before = comments
      await eventually(async () => comments > before)
    },
    begun: () => eventually(async () => chunks > 0).then(() => undefined),
    close: () => controller.abort(),
  }
}

function parsed(block: string): StreamEvent | undefined {
  const fields = new Map(
    block
      .split('\n')
      .filter((line) => !line.startsWith(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)] as const),
  )
  const event = fields.get('event')
  if (event === undefined) return undefined
  return { event, id: fields.get('id'), data: JSON.parse(fields.get('data') ?? '{}') as StreamEvent['data'] }
}
