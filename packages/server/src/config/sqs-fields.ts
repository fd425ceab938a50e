/**
 * The settings of SQS, and what must hold among them. Credentials are said, never found: whoever wants what
 * the machine has (a profile, the role of an instance or a pod) says `chain`.
 */
import { z } from 'zod'
import { about, aboutSecret, oneOf } from './fields.ts'

const queueUrl = /^https?:\/\/[^\s/?#@]+(?:\/[^\s/?#]+)*\/[A-Za-z0-9_{}-]{1,80}(?:\.fifo)?$/
const notQueueUrl =
  'is not the URL of an SQS queue; write it like https://sqs.eu-west-1.amazonaws.com/123456789012/belfry'

const word = (what: RegExp, error: string) => z.string({ error }).regex(what, { error }).optional()

export const sqsFields = {
  sqsQueueUrl: z
    .string({ error: notQueueUrl })
    .regex(queueUrl, { error: notQueueUrl })
    .optional()
    .meta(
      about(
        'SQS queue, standard or FIFO, that tells workers which runs to claim; it may lose everything at ' +
          'any moment. With `{queue}` in its name: a queue for each queue of Belfry',
      ),
    ),
  sqsRegion: word(/^[a-z0-9-]{3,40}$/, 'is not the name of a region; write it like eu-west-1').meta(
    about('Region of the SQS queue', 'as `sqsQueueUrl` tells'),
  ),
  sqsEndpoint: z
    .url({ protocol: /^https?$/, error: 'is not a URL; write it like https://sqs.eu-west-1.amazonaws.com' })
    .optional()
    .meta(about('Where SQS is spoken to, such as a VPC endpoint', 'the host of `sqsQueueUrl`')),
  sqsCredentials: oneOf(['keys', 'chain'])
    .default('keys')
    .meta(
      about(
        '`keys`: the two settings below; `chain`: what the AWS SDK finds on this machine (variables, ' +
          'a profile, the role of the instance, task or pod)',
      ),
    ),
  sqsAccessKeyId: word(/^[\w./+=-]{1,128}$/, 'is not an access key id').meta(
    about('Access key of AWS, for `sqsCredentials: keys`'),
  ),
  sqsSecretAccessKey: word(/^\S{1,256}$/, 'is not a secret access key').meta(
    aboutSecret('Its secret; better by `BELFRY_SQS_SECRET_ACCESS_KEY_FILE`'),
  ),
  sqsSessionToken: word(/^\S{1,4096}$/, 'is not a session token').meta(
    aboutSecret('Session token, for keys that last a while only'),
  ),
}

type SqsGiven = z.infer<z.ZodObject<typeof sqsFields>>

/** Calls `fault` for each setting that does not go with the others. */
export function checkSqs(config: SqsGiven, fault: (key: keyof SqsGiven, message: string) => void): void {
  const { sqsQueueUrl, sqsRegion, sqsCredentials, sqsAccessKeyId, sqsSecretAccessKey } = config
  const keys = [sqsAccessKeyId, sqsSecretAccessKey].filter((each) => each !== undefined)
  if (sqsQueueUrl === undefined) return
  const name = queueNameOf(sqsQueueUrl)
  if (/[{}]/.test(name.replace('{queue}', '')) || /[{}]/.test(sqsQueueUrl.slice(0, -name.length))) {
    fault('sqsQueueUrl', 'sqsQueueUrl may hold "{queue}" once, in the name of the queue, and no other braces')
  }
  if (sqsRegion === undefined && regionOfQueueUrl(sqsQueueUrl) === undefined) {
    fault('sqsRegion', 'sqsRegion is missing, and sqsQueueUrl does not tell it; set BELFRY_SQS_REGION')
  }
  if (sqsCredentials === 'keys' && keys.length < 2) {
    const message =
      'sqsQueueUrl needs credentials: set BELFRY_SQS_ACCESS_KEY_ID and BELFRY_SQS_SECRET_ACCESS_KEY, or ' +
      'BELFRY_SQS_CREDENTIALS=chain to use what the AWS SDK finds on this machine'
    fault('sqsCredentials', message)
  }
  if (sqsCredentials === 'chain' && keys.length > 0) {
    const message = 'sqsCredentials is chain, and keys are given too; leave one of them out'
    fault('sqsCredentials', message)
  }
}

const queueNameOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1)

/** The region that the host of a queue's URL names; undefined where it is none of AWS's. */
export function regionOfQueueUrl(url: string): string | undefined {
  const { hostname } = new URL(url)
  const named = /(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/
  const legacy = /^([a-z0-9-]+)\.queue\.amazonaws\.com(?:\.cn)?$/
  return (named.exec(hostname) ?? legacy.exec(hostname))?.[1]
}
