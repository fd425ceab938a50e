/**
 * A mail that is tried again while the mail server is busy, given up where the address does not exist, and
 * never sent twice: the idempotency key goes along, and a server that has seen it answers as the first time.
 */
import { defineJob, fail, retryAfter } from 'belfry'
import { z } from 'zod'

export interface MailAnswer {
  readonly status: 'sent' | 'busy' | 'no_such_address'
  readonly retryAfterMs?: number
}

/** As much of a mail service as is needed. */
export interface MailService {
  send(mail: { to: string; text: string; key: string }, signal: AbortSignal): Promise<MailAnswer>
}

export const sendMail = (service: MailService) =>
  defineJob({
    name: 'mail.send',
    queue: 'mail',
    input: z.object({ to: z.email(), text: z.string().max(10_000) }),
    output: z.object({ sentTo: z.string() }),
    retry: { maxAttempts: 8, baseMs: 1_000, capMs: 600_000 },
    timeoutMs: 30_000,
    async run({ to, text }, { idempotencyKey: key, signal, log }) {
      const answer = await service.send({ to, text, key }, signal)
      log.info(answer.status, { to })
      if (answer.status === 'busy') retryAfter(answer.retryAfterMs ?? 1_000, 'the mail server is busy')
      if (answer.status === 'no_such_address') fail(`there is no address ${to}`)
      return { sentTo: to }
    },
  })
