/**
 * The settings of the handler `lambda`. The credentials are those by which roles of tenants are assumed; they
 * are said here and never found: nothing that the machine has is used.
 */
import { z } from 'zod'
import { lambdaRegions } from '../domain/lambda-policy.ts'
import { about, aboutSecret, list } from './fields.ts'

const word = (what: RegExp, error: string) => z.string({ error }).regex(what, { error }).optional()

const arnPattern =
  /^arn:(?:aws|aws-cn|aws-us-gov):lambda:[a-z0-9*-]+:[0-9*]+:function:[\w*$-]+(?::[\w*$-]+)?$/
const notPattern =
  'holds what is no ARN of functions; write it like arn:aws:lambda:eu-west-1:123456789012:function:belfry-*'
const notRegion = 'holds what is not the name of a region; write it like eu-west-1'
const endpoint = (service: string) =>
  z
    .url({
      protocol: /^https?$/,
      error: `is not a URL; write it like https://${service}.eu-west-1.amazonaws.com`,
    })
    .optional()

export const lambdaFields = {
  lambdaFunctions: list(z.string({ error: notPattern }).regex(arnPattern, { error: notPattern }))
    .default([])
    .meta(
      about(
        'Functions of AWS Lambda that jobs may call, as ARNs, in which `*` stands for any characters; all ' +
          'others are refused',
      ),
    ),
  lambdaRegions: list(
    z.string({ error: notRegion }).regex(/^[a-z]{2}(?:-[a-z]{2,12}){1,3}-\d{1,2}$/, { error: notRegion }),
  )
    .default([...lambdaRegions])
    .meta(about('Regions that jobs may call', 'those in which AWS offers Lambda')),
  lambdaAccessKeyId: word(/^[\w./+=-]{1,128}$/, 'is not an access key id').meta(
    about('Access key of AWS by which the roles of jobs are assumed'),
  ),
  lambdaSecretAccessKey: word(/^\S{1,256}$/, 'is not a secret access key').meta(
    aboutSecret('Its secret; better by `BELFRY_LAMBDA_SECRET_ACCESS_KEY_FILE`'),
  ),
  lambdaSessionToken: word(/^\S{1,4096}$/, 'is not a session token').meta(
    aboutSecret('Session token, for keys that last a while only'),
  ),
  lambdaPrincipal: word(
    /^arn:(?:aws|aws-cn|aws-us-gov):(?:iam|sts)::\d{12}:[\w+=,.@/-]{1,512}$/,
    'is not the ARN of a user or role; write it like arn:aws:iam::123456789012:user/belfry',
  ).meta(
    about('Whose access key that is: what the trust policies of tenants name; shown by `GET /v1/lambda`'),
  ),
  lambdaEndpoint: endpoint('lambda').meta(
    about('Where Lambda is spoken to, such as a VPC endpoint or an emulator', 'that of AWS in the region'),
  ),
  lambdaStsEndpoint: endpoint('sts').meta(
    about('Where STS is spoken to', 'that of AWS in the region of the function'),
  ),
}

type Given = z.infer<z.ZodObject<typeof lambdaFields>>

/** Calls `fault` for each setting that does not go with the others. */
export function checkLambda(config: Given, fault: (key: keyof Given, message: string) => void): void {
  const { lambdaFunctions, lambdaAccessKeyId, lambdaSecretAccessKey } = config
  if ((lambdaAccessKeyId === undefined) !== (lambdaSecretAccessKey === undefined)) {
    const message = 'lambdaAccessKeyId and lambdaSecretAccessKey go together; set both, or none'
    fault('lambdaAccessKeyId', message)
  } else if (lambdaFunctions.length > 0 && lambdaAccessKeyId === undefined) {
    const message =
      'lambdaFunctions needs credentials, and none of this machine are used: set ' +
      'BELFRY_LAMBDA_ACCESS_KEY_ID and BELFRY_LAMBDA_SECRET_ACCESS_KEY'
    fault('lambdaAccessKeyId', message)
  }
}
