/**
 * The SQS queue of SQS_QUEUE_URL as a server here would meet it: does it answer these credentials, what
 * happens to messages that are none of ours, does anything make announcements late. Sends and takes nothing,
 * so it cannot tell whether these credentials may.
 */
import { lookAt, createSqsLink, type SqsLink, type SqsSettings } from '../adapters/sqs/sqs-link.ts'
import { hasQueueEach, isFifo } from '../adapters/sqs/sqs-queues.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Diagnosis } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'

type Attributes = Readonly<Record<string, string>>

/** The relay keeps a window of a few hundred; far more is not by Belfry, or nobody listens. */
const manyMessages = 10_000
const fewReceives = 3

/** Never throws. */
export async function examineSqs(settings: SqsSettings): Promise<Diagnosis[]> {
  const events = { emit: () => undefined }
  const link = createSqsLink({ settings, clock: systemClock, random: systemRandom, events })
  try {
    await link.start()
    const { up, fault } = link.stats()
    if (!up) return [refusal(settings, fault ?? 'no answer')]
    return hasQueueEach(settings.queueUrl) ? [serviceDiagnosis(settings)] : await examineQueue(link, settings)
  } catch (error) {
    return [refusal(settings, wordsOf(error))]
  } finally {
    await link.close()
  }
}

function refusal({ queueUrl }: SqsSettings, fault: string): Diagnosis {
  const message = `SQS does not let Belfry use ${queueUrl}: ${fault}. Without it runs are claimed directly.`
  const fix =
    'Check SQS_QUEUE_URL, BELFRY_SQS_REGION, the credentials, and their rights (docs/how-to/sqs.md).'
  return { name: 'sqs', status: 'fail', message, fix }
}

/** Which queues there must be is known to those who name queues. */
function serviceDiagnosis({ queueUrl, endpoint }: SqsSettings): Diagnosis {
  const message = `SQS at ${endpoint} answers; each queue of Belfry needs one by the name of ${queueUrl}.`
  return { name: 'sqs', status: 'ok', message, fix: null }
}

async function examineQueue(link: SqsLink, settings: SqsSettings): Promise<Diagnosis[]> {
  const { queueUrl, endpoint } = settings
  const sentMs = systemClock.monotonicMs()
  const attributes = await link.call(lookAt(queueUrl))
  const took = Math.round(systemClock.monotonicMs() - sentMs)
  const kind = isFifo(queueUrl) ? 'FIFO' : 'standard'
  const message = `The ${kind} queue ${queueUrl} answers (${took} ms).`
  const plain = endpoint.startsWith('http:')
    ? { status: 'warn', fix: 'It is spoken to without TLS; use https:// unless it is on this machine.' }
    : { status: 'ok', fix: null }
  return [
    { name: 'sqs', message, ...plain } as Diagnosis,
    deadLetterDiagnosis(attributes),
    ...delayDiagnoses(attributes),
    ...backlogDiagnoses(attributes),
  ]
}

function deadLetterDiagnosis({ RedrivePolicy }: Attributes): Diagnosis {
  const name = 'sqs_dead_letters'
  if (RedrivePolicy === undefined) {
    const message = 'It has no dead-letter queue: what is no announcement is deleted, and counted.'
    return { name, status: 'ok', message, fix: null }
  }
  const { deadLetterTargetArn, maxReceiveCount } = JSON.parse(RedrivePolicy) as Record<string, unknown>
  const target = `${String(deadLetterTargetArn)} after ${String(maxReceiveCount)} looks`
  const message = `What is no announcement goes to ${target}.`
  if (Number(maxReceiveCount) >= fewReceives) return { name, status: 'ok', message, fix: null }
  const fix =
    `Set its maxReceiveCount to ${fewReceives} or more; otherwise announcements go there, too, when a ` +
    'worker is full or dies. Nothing is lost by that, but the queue fills with them.'
  return { name, status: 'warn', message, fix }
}

function delayDiagnoses({ DelaySeconds = '0' }: Attributes): Diagnosis[] {
  if (Number(DelaySeconds) === 0) return []
  const message = `It holds every message back for ${DelaySeconds} s, so runs are claimed directly before.`
  return [{ name: 'sqs_delay', status: 'warn', message, fix: 'Set DelaySeconds of the queue to 0.' }]
}

function backlogDiagnoses({ ApproximateNumberOfMessages = '0' }: Attributes): Diagnosis[] {
  if (Number(ApproximateNumberOfMessages) <= manyMessages) return []
  const message = `About ${ApproximateNumberOfMessages} messages wait in it; Belfry keeps some hundred there.`
  const fix = 'See who else sends to it, and whether workers run; purging it loses nothing.'
  return [{ name: 'sqs_backlog', status: 'warn', message, fix }]
}
