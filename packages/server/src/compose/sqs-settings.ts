/**
 * What the settings say of SQS, as its adapter wants it. That they go together was checked when they were
 * loaded (config/sqs-fields.ts).
 */
import type { SqsSettings } from '../adapters/sqs/sqs-link.ts'
import type { Config } from '../config/schema.ts'
import { regionOfQueueUrl } from '../config/sqs-fields.ts'

/** Undefined without `sqsQueueUrl`. */
export function sqsSettings(config: Config): SqsSettings | undefined {
  const { sqsQueueUrl: queueUrl, sqsAccessKeyId, sqsSecretAccessKey } = config
  if (queueUrl === undefined) return undefined
  const keys = sqsAccessKeyId !== undefined && sqsSecretAccessKey !== undefined
  return {
    queueUrl,
    endpoint: config.sqsEndpoint ?? new URL(queueUrl).origin,
    region: config.sqsRegion ?? regionOfQueueUrl(queueUrl) ?? '',
    credentials: keys
      ? {
          accessKeyId: sqsAccessKeyId,
          secretAccessKey: sqsSecretAccessKey,
          sessionToken: config.sqsSessionToken,
        }
      : 'chain',
  }
}
