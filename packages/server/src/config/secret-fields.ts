/**
 * The settings of secrets: the master keys that wrap the keys of tenants, here or in AWS KMS, and what must
 * hold among them.
 */
import { z } from 'zod'
import { parseKeyRing } from '../domain/key-ring.ts'
import { about, aboutSecret, commaSeparated, oneOf } from './fields.ts'

const word = (what: RegExp, error: string) => z.string({ error }).regex(what, { error }).optional()

const kmsKey = z
  .string({ error: 'is not a list of keys' })
  .regex(/^(?:arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:(?:key|alias)\/[\w/-]+|alias\/[\w/-]+|[\w-]{1,256})$/, {
    error: 'holds what is no key of KMS; write it like arn:aws:kms:eu-west-1:123456789012:key/…',
  })

export const secretFields = {
  secretKeys: z
    .string({ error: 'is not text' })
    .superRefine((text, context) => {
      const ring = parseKeyRing(text)
      if (typeof ring === 'string') context.addIssue({ code: 'custom', message: ring })
    })
    .optional()
    .meta({
      ...aboutSecret(
        'Master keys of secrets, `2:<base64 of 32 bytes>,1:<base64>`: the highest number wraps, all open; ' +
          'the same on every process; better by `BELFRY_SECRET_KEYS_FILE`. With the embedded Postgres one ' +
          'is made in `dataDir` where this is left out',
      ),
    }),
  secretKmsKeys: z
    .preprocess(commaSeparated, z.array(kmsKey, { error: 'is not a list of keys' }).min(1))
    .optional()
    .meta(about('Master keys in AWS KMS instead, by ARN, id or alias: the first one wraps, all open')),
  secretKmsRegion: word(/^[a-z0-9-]{3,40}$/, 'is not the name of a region; write it like eu-west-1').meta(
    about('Region of the keys in KMS', 'as the ARN of the first key tells'),
  ),
  secretKmsEndpoint: z
    .url({ protocol: /^https?$/, error: 'is not a URL; write it like https://kms.eu-west-1.amazonaws.com' })
    .optional()
    .meta(about('Where KMS is spoken to, such as a VPC endpoint', 'that of AWS in the region')),
  secretKmsCredentials: oneOf(['keys', 'chain'])
    .default('keys')
    .meta(
      about(
        '`keys`: the two settings below; `chain`: what the AWS SDK finds on this machine (variables, ' +
          'a profile, the role of the instance, task or pod)',
      ),
    ),
  secretKmsAccessKeyId: word(/^[\w./+=-]{1,128}$/, 'is not an access key id').meta(
    about('Access key of AWS, for `secretKmsCredentials: keys`'),
  ),
  secretKmsSecretAccessKey: word(/^\S{1,256}$/, 'is not a secret access key').meta(
    aboutSecret('Its secret; better by `BELFRY_SECRET_KMS_SECRET_ACCESS_KEY_FILE`'),
  ),
  secretKmsSessionToken: word(/^\S{1,4096}$/, 'is not a session token').meta(
    aboutSecret('Session token, for keys that last a while only'),
  ),
  secretWrapBy: oneOf(['keys', 'kms'])
    .optional()
    .meta(
      about(
        'Which of the two wraps where both `secretKeys` and `secretKmsKeys` are given, on the way from ' +
          'one to the other',
        '`kms`',
      ),
    ),
}

type Given = z.infer<z.ZodObject<typeof secretFields>>

/** Calls `fault` for each setting that does not go with the others. */
export function checkSecrets(config: Given, fault: (key: keyof Given, message: string) => void): void {
  const { secretKeys, secretKmsKeys, secretWrapBy, secretKmsRegion, secretKmsCredentials } = config
  if (secretWrapBy === 'keys' && secretKeys === undefined)
    fault('secretWrapBy', 'secretWrapBy is keys, and there are none; set BELFRY_SECRET_KEYS')
  if (secretWrapBy === 'kms' && secretKmsKeys === undefined)
    fault('secretWrapBy', 'secretWrapBy is kms, and there is no key in it; set BELFRY_SECRET_KMS_KEYS')
  if (secretKmsKeys === undefined) return
  if (secretKmsRegion === undefined && regionOfKmsKey(secretKmsKeys[0]) === undefined)
    fault(
      'secretKmsRegion',
      'secretKmsRegion is missing, and secretKmsKeys does not tell it; set BELFRY_SECRET_KMS_REGION',
    )
  const keys = [config.secretKmsAccessKeyId, config.secretKmsSecretAccessKey].filter(
    (each) => each !== undefined,
  )
  if (secretKmsCredentials === 'keys' && keys.length < 2) {
    const message =
      'secretKmsKeys needs credentials: set BELFRY_SECRET_KMS_ACCESS_KEY_ID and ' +
      'BELFRY_SECRET_KMS_SECRET_ACCESS_KEY, or BELFRY_SECRET_KMS_CREDENTIALS=chain to use what the AWS SDK ' +
      'finds on this machine'
    fault('secretKmsCredentials', message)
  }
  if (secretKmsCredentials === 'chain' && keys.length > 0)
    fault(
      'secretKmsCredentials',
      'secretKmsCredentials is chain, and keys are given too; leave one of them out',
    )
}

/** Undefined where it is no ARN. */
export const regionOfKmsKey = (key: string | undefined): string | undefined =>
  /^arn:[^:]+:kms:([^:]+):/.exec(key ?? '')?.[1]
