/**
 * Reads a stream of events (text/event-stream) by `fetch`. The server breaks silence every 15 s; a connection
 * on which nothing comes for three times as long is taken for dead.
 */
import { BelfryError } from '@belfry/contract'
import { errorOfAnswer, noAnswer, unexpectedAnswer } from './answer-errors.ts'
import type { HttpRequest, TransportOptions } from './transport.ts'

/** One event; `id` is the last one that was sent. */
export type ServerEvent = {
  readonly event: string
  readonly id: string | undefined
  readonly data: unknown
}

const longestSilenceMs = 45_000
/** Characters of one event that are read, at most. */
const longestEvent = 1_048_576

export async function* openEvents(
  request: HttpRequest,
  { fetch: send, timeoutMs }: Pick<TransportOptions, 'fetch' | 'timeoutMs'>,
): AsyncGenerator<ServerEvent, void> {
  const shown = `${request.method} ${request.url}`
  const own = new AbortController()
  const signal = request.signal === undefined ? own.signal : AbortSignal.any([request.signal, own.signal])
  let timer: ReturnType<typeof setTimeout> | undefined
  const silentFor = (ms: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => own.abort(new DOMException('The server is silent.', 'TimeoutError')), ms)
  }
  try {
    silentFor(timeoutMs)
    const response = await send(request.url, {
      method: request.method,
      headers: request.headers,
      redirect: 'manual',
      signal,
    })
    if (!response.ok) throw errorOfAnswer(response, parsed(await response.text()), shown)
    const type = response.headers.get('content-type') ?? ''
    if (!type.startsWith('text/event-stream') || response.body === null)
      throw unexpectedAnswer(shown, 'something that is no stream of events')
    yield* eventsOf(response.body, () => silentFor(longestSilenceMs), shown)
  } catch (error) {
    if (error instanceof BelfryError) throw error
    request.signal?.throwIfAborted()
    throw noAnswer(shown, error, longestSilenceMs)
  } finally {
    clearTimeout(timer)
    own.abort()
  }
}

async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  heard: () => void,
  shown: string,
): AsyncGenerator<ServerEvent, void> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let id: string | undefined
  try {
    for (;;) {
      heard()
      const { done, value } = await reader.read()
      if (done) return
      text += decoder.decode(value, { stream: true }).replaceAll('\r\n', '\n')
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      if (text.length > longestEvent) throw unexpectedAnswer(shown, 'an event that does not end')
      for (const block of blocks) {
        const event = eventOf(block, id)
        if (event === undefined) continue
        id = event.id
        yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** Undefined for what is no event: comments, `retry`. */
function eventOf(block: string, before: string | undefined): ServerEvent | undefined {
  const data: string[] = []
  let event = 'message'
  let id = before
  for (const line of block.split('\n')) {
    const [, name, value] = /^([a-z]+):? ?(.*)$/.exec(line) ?? []
    if (name === 'event') event = value ?? event
    else if (name === 'id') id = value
    else if (name === 'data') data.push(value ?? '')
  }
  return data.length === 0 ? undefined : { event, id, data: parsed(data.join('\n')) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
