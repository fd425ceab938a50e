/**
 * One event, many webhooks: a run that asks for one run per subscriber, so that each is tried again by itself
 * and none waits for another. The key makes it safe to be tried again in the middle: what was asked for
 * before is not asked for twice.
 */
import { type Client, defineJob, fail } from 'belfry'
import { z } from 'zod'

const event = z.object({ id: z.string(), kind: z.string() })

export const deliver = defineJob({
  name: 'webhook.deliver',
  queue: 'webhooks',
  input: z.object({ url: z.url(), event }),
  retry: { maxAttempts: 10, baseMs: 200, capMs: 3_600_000 },
  timeoutMs: 10_000,
  async run(input, { signal, idempotencyKey }) {
    const response = await fetch(input.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
      body: JSON.stringify(input.event),
      signal,
    })
    if (response.status === 410) fail('the subscriber is gone for good')
    if (!response.ok) throw new Error(`answered ${response.status}`)
    return response.status
  },
})

export const fanOut = (client: () => Client, subscribers: () => readonly string[]) =>
  defineJob({
    name: 'webhook.fan-out',
    queue: 'webhooks',
    input: event,
    async run(input, { idempotencyKey, log }) {
      for (const url of subscribers())
        await client().enqueue(
          deliver,
          { url, event: input },
          { idempotencyKey: `${idempotencyKey}-${hash(url)}` },
        )
      log.info('fanned out', { subscribers: subscribers().length })
    },
  })

const hash = (text: string): string => Buffer.from(text).toString('base64url').slice(-40)
