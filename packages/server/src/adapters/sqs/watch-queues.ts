/**
 * Which SQS queues there are of a name with `{queue}` in it, for a worker that serves every queue: looked up
 * at the start, when SQS comes back, and every half minute.
 */
import type { EventSink } from '../../ports/event-sink.ts'
import type { Clock } from '../../ports/clock.ts'
import { toSqsFault } from './sqs-fault.ts'
import type { SqsLink } from './sqs-link.ts'
import { isOfTemplate, namesBegin } from './sqs-queues.ts'

const everyMs = 30_000
const mostListed = 100

/** Resolves after the first look; goes on until `signal` aborts. Never rejects. */
export async function watchQueues(options: {
  readonly link: SqsLink
  readonly template: string
  readonly clock: Clock
  readonly events: EventSink
  readonly signal: AbortSignal
  readonly found: (urls: readonly string[]) => void
}): Promise<void> {
  const { link, template, clock, events, signal, found } = options
  let told = false

  async function look(): Promise<void> {
    if (!link.up) return
    try {
      found(await listQueues(link, template))
      told = false
    } catch (error) {
      const { kind, message } = toSqsFault(error, 'ListQueues', template)
      if (kind === 'denied' && !told)
        events.emit('carrier_refused', { part: 'sqs', at: template, fault: message })
      told ||= kind === 'denied'
    }
  }

  async function goOn(): Promise<void> {
    for (;;) {
      await clock.sleep(everyMs, signal)
      if (signal.aborted) return
      await look()
    }
  }

  const leave = link.onChange((up) => {
    if (up) void look()
  })
  signal.addEventListener('abort', leave, { once: true })
  await look()
  void goOn()
}

/** Its own host stands in each URL, so that an endpoint of ours is kept to. */
async function listQueues(link: SqsLink, template: string): Promise<readonly string[]> {
  const { QueueUrls } = await link.call({
    action: 'ListQueues',
    url: template,
    send: (client, sdk, abortSignal) => {
      const asked = { QueueNamePrefix: namesBegin(template), MaxResults: mostListed }
      return client.send(new sdk.ListQueuesCommand(asked), { abortSignal })
    },
  })
  const place = template.slice(0, template.lastIndexOf('/') + 1)
  return (QueueUrls ?? [])
    .filter((url) => isOfTemplate(template, url))
    .map((url) => place + url.slice(url.lastIndexOf('/') + 1))
}
