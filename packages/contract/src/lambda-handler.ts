/**
 * The handler kind `lambda`: one function of AWS Lambda, called as a role of the tenant's own account. Region
 * and account stand in the ARN and nowhere else, so nothing that a tenant writes becomes part of a host name
 * that is not a region. Which functions and regions may be called at all is the operator's word (config).
 */
import { z } from 'zod'

export const lambdaInvocations = ['request_response', 'event'] as const
export type LambdaInvocation = (typeof lambdaInvocations)[number]

export const lambdaPayloads = ['envelope', 'input'] as const

const partition = 'arn:(aws|aws-cn|aws-us-gov)'
const functionArnForm = new RegExp(
  `^${partition}:lambda:` +
    String.raw`([a-z]{2}(?:-[a-z]{2,12}){1,3}-\d{1,2}):(\d{12}):function:([\w-]{1,64})` +
    String.raw`(?::(\$LATEST|[\w-]{1,128}))?$`,
)
const roleArnForm = new RegExp(
  `^${partition}` + String.raw`:iam::(\d{12}):role/((?:[\w+=,.@-]{1,128}/){0,8}[\w+=,.@-]{1,64})$`,
)

export interface FunctionArn {
  readonly partition: string
  readonly region: string
  readonly account: string
  readonly name: string
  /** Version or alias; undefined: none is named, which AWS takes for `$LATEST`. */
  readonly qualifier: string | undefined
}

/** Undefined: it is not the ARN of one function. */
export function parseFunctionArn(text: string): FunctionArn | undefined {
  const [, partition, region, account, name, qualifier] = functionArnForm.exec(text) ?? []
  if (partition === undefined || region === undefined || account === undefined || name === undefined)
    return undefined
  return { partition, region, account, name, qualifier }
}

const regionsOfPartition = (partition: string): RegExp => {
  if (partition === 'aws-cn') return /^cn-/
  return partition === 'aws-us-gov' ? /^us-gov-/ : /^(?!cn-|us-gov-|us-iso)/
}

function functionArnFault(text: string): string | undefined {
  const example = 'arn:aws:lambda:eu-central-1:123456789012:function:report:live'
  if (/[*?]/.test(text)) return `must name one function, without wildcards, like ${example}`
  const arn = parseFunctionArn(text)
  if (arn === undefined) return `is not the full ARN of a function; write it like ${example}`
  if (regionsOfPartition(arn.partition).test(arn.region)) return undefined
  return `has the region "${arn.region}", which is none of the partition "${arn.partition}"; correct one`
}

const withoutFault =
  (faultOf: (text: string) => string | undefined) =>
  (text: string, context: z.RefinementCtx): void => {
    const message = faultOf(text)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  }

const roleExample = 'arn:aws:iam::123456789012:role/belfry-invoke'

export const lambdaHandlerSchema = z
  .strictObject({
    kind: z.literal('lambda'),
    functionArn: z
      .string()
      .max(256)
      .superRefine(withoutFault(functionArnFault))
      .meta({
        description: 'Of one function, with a version or an alias behind it or without',
        examples: ['arn:aws:lambda:eu-central-1:123456789012:function:report:live'],
      }),
    roleArn: z
      .string()
      .max(2048)
      .regex(roleArnForm, { error: `is not the ARN of an IAM role; write it like ${roleExample}` })
      .meta({
        description:
          'Role of your account that Belfry assumes to call the function. Its trust policy must ask for ' +
          'the external id of your tenant, which `GET /v1/lambda` shows',
        examples: [roleExample],
      }),
    invocation: z
      .enum(lambdaInvocations)
      .default('request_response')
      .meta({
        description:
          '`request_response`: the attempt ends with what the function answers. `event`: it succeeds as ' +
          'soon as AWS has taken the event; what the function does with it is not seen',
      }),
    payload: z
      .enum(lambdaPayloads)
      .default('envelope')
      .meta({
        description:
          '`envelope`: the function gets `{"belfry": {"runId", "attempt", …}, "input": …}`. `input`: it ' +
          'gets the input of the run as it is; the key is in the client context then, which AWS hands' +
          '  on for `request_response` alone',
      }),
  })
  .refine(({ functionArn, roleArn }) => functionArn.split(':', 2)[1] === roleArn.split(':', 2)[1], {
    error: 'must be of the same partition as the function',
    path: ['roleArn'],
  })
  .meta({ id: 'LambdaHandler' })
export type LambdaHandlerDefinition = z.infer<typeof lambdaHandlerSchema>

export const lambdaAccessSchema = z
  .strictObject({
    enabled: z.boolean().meta({ description: 'False: the operator has not set this server up for Lambda' }),
    externalId: z
      .string()
      .meta({ description: 'What the trust policy of your role must ask for (`sts:ExternalId`)' }),
    principal: z
      .string()
      .nullable()
      .meta({ description: 'Who assumes your role: the principal of its trust policy; null: not said' }),
    functions: z
      .array(z.string())
      .meta({ description: 'ARNs of the functions that jobs may call; `*` stands for any characters' }),
    regions: z.array(z.string()),
  })
  .meta({ id: 'LambdaAccess' })
export type LambdaAccess = z.infer<typeof lambdaAccessSchema>
