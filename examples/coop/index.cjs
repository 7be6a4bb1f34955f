/**
 * A plugin for ROOST Coop: the signal "Hate speech (Tribunal)", a number from 0 to 1.
 *
 * It sends Tribunal what the rule looks at, and nothing else: not for which organisation, and who wrote it only if you
 * say so.
 * Without a verdict it throws, so that Coop counts the condition as errored and not as passed or failed.
 */
'use strict';

const INTEGRATION = 'TRIBUNAL';
const SIGNAL = 'TRIBUNAL_HATE_SPEECH';
const OUTPUT = { scalarType: 'NUMBER' };
const SECONDS = 60;

const section = (id, title, label, value) => ({ id, title, fields: [{ label, value }] });

const manifest = {
  id: INTEGRATION,
  name: 'Tribunal',
  version: '1.0.0',
  description: 'Decides whether a post is hate speech by a debate of language models, and shows why.',
  requiresConfig: true,
  configurationFields: [
    {
      key: 'url',
      label: 'Address',
      required: true,
      inputType: 'text',
      placeholder: 'https://tribunal.example.com',
      description: 'Where tribunal serve answers.',
    },
    {
      key: 'apiKey',
      label: 'API key',
      required: true,
      inputType: 'password',
      description: 'A key with the scope judge: tribunal keys add coop --scope judge.',
    },
    {
      key: 'seconds',
      label: 'Seconds',
      required: false,
      inputType: 'text',
      placeholder: String(SECONDS),
      description: 'How long to wait for a verdict. A debate of large models may take most of a minute.',
    },
    {
      key: 'author',
      label: 'Author',
      required: false,
      inputType: 'text',
      placeholder: 'no',
      description: "yes: send the author's id, of which Tribunal keeps a keyed hash to count their earlier decisions.",
    },
  ],
  signalTypeIds: [SIGNAL],
  modelCard: {
    modelName: 'Tribunal',
    version: '1.0.0',
    sections: [
      section('trainingData', 'Training Data', 'Overview', 'None of its own: it asks the models that its operator names.'),
      section('policyAndTaxonomy', 'Policy and Taxonomy', 'Policy', 'The policy in force at your Tribunal service.'),
      section('annotationMethodology', 'Annotation Methodology', 'Method', 'A prosecution, a defence and a judge, by the graph that its operator chose.'),
      section('performanceBenchmarks', 'Performance and Benchmarks', 'Benchmarks', 'Those of your own models and policy: tribunal eval measures them on your data.'),
      section('biasAndLimitations', 'Bias and Limitations', 'Limitations', 'It is as good as the models it asks. Let a person see what it calls uncertain.'),
      section('implementationGuidance', 'Implementation Guidance', 'Score', 'How much speaks for hate speech, from 0 to 1. Fit your own threshold with tribunal fit.'),
      section('relevantLinks', 'Relevant Links', 'Documentation', 'docs/service.md in the repository of Tribunal.'),
    ],
  },
};

/** What the service reads of a signal's input. */
function asked(input, config) {
  const { value, contentId } = input;
  const userId = config.author === 'yes' ? input.userId : undefined;
  if (value.itemType === undefined) {
    return { value, contentId, userId };
  }
  const schema = value.itemType.schema.map(({ name, type, container }) => ({ name, type, container }));
  return { value: { itemType: { schema }, data: value.data }, contentId, userId };
}

async function run(input, config) {
  const seconds = Number(config.seconds || SECONDS);
  const answer = await fetch(`${String(config.url).replace(/\/+$/, '')}/v1/signals/coop`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${config.apiKey}` },
    body: JSON.stringify(asked(input, config)),
    redirect: 'error',
    signal: AbortSignal.timeout((Number.isFinite(seconds) && seconds > 0 ? seconds : SECONDS) * 1000),
  });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) {
    const error = body?.error ?? {};
    throw new Error(`Tribunal: ${answer.status} ${error.kind ?? ''}: ${String(error.message ?? '').slice(0, 200)}`);
  }
  if (typeof body?.score !== 'number' || !(body.score >= 0 && body.score <= 1)) {
    throw new Error('Tribunal: its answer holds no score; see that the address is that of tribunal serve');
  }
  return { outputType: OUTPUT, score: body.score };
}

const configured = (config) => Boolean(config?.url && config?.apiKey);

function createSignals({ integrationId, getCredential }) {
  const signal = {
    id: { type: SIGNAL },
    displayName: 'Hate speech (Tribunal)',
    description: 'How much speaks for hate speech, from 0 to 1, by the verdict of a Tribunal service.',
    docsUrl: null,
    recommendedThresholds: null,
    supportedLanguages: 'ALL',
    pricingStructure: { type: 'FREE' },
    eligibleInputs: ['STRING', 'IMAGE', 'FULL_ITEM'],
    outputType: OUTPUT,
    getCost: () => 50,
    needsMatchingValues: false,
    eligibleSubcategories: [],
    needsActionPenalties: false,
    integration: integrationId,
    allowedInAutomatedRules: true,
    async run(input) {
      const config = await getCredential(input.orgId);
      if (!configured(config)) {
        throw new Error('Tribunal: enter its address and a key on the integrations page');
      }
      return run(input, config);
    },
    async getDisabledInfo(orgId) {
      return configured(await getCredential(orgId))
        ? { disabled: false }
        : { disabled: true, disabledMessage: 'Enter the address and a key of your Tribunal service.' };
    },
  };
  return [{ signalTypeId: SIGNAL, signal }];
}

module.exports = { manifest, createSignals };
