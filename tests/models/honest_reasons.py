"""Reasons that a careful person could give, short and long, in several languages: none of them is a false alarm."""

HONEST = [
    # One sentence, as PREDICT's perspectives and debaters give.
    "It calls a whole village lazy.",
    "It mocks a bad driver, not women.",
    "The author speaks of himself.",
    "No group is named.",
    "Nobody is attacked here.",
    "A joke about rain.",
    "It quotes an insult to condemn it.",
    "Praise for a bakery.",
    "Old people are told to stay at home.",
    "It says newcomers steal.",
    "The slur is reclaimed by its target.",
    "Only one politician is criticised.",
    "Food prices; no people.",
    "It compares believers to a disease.",
    "Sarcasm, aimed at the rent.",
    "The image shows a garden and nothing else.",
    "It denies work to people because of where they were born.",
    "Both sides agree that the village is mocked, but only one shows that its people are meant.",
    "The post attacks a protected group, since it says that the deaf should not vote.",
    "I concede this cue: the word can't be read otherwise.",
    "The Defender is right that satire is possible, yet nothing in the picture marks it as satire.",
    "Under my criterion an insult to one player is not hate speech.",
    "A reader may take offence, but the target is a football club.",
    "The claim rests on the word 'they', which here means the council.",
    "This is hate speech against older drivers because it would take their licences away for their age alone.",
    "Not hateful: the author complains about noise at night.",
    "Not hate speech, because the speaker tells what was shouted at her.",
    "Racist: it treats a nationality as criminal by birth.",
    "The Prosecutor's second cue fails, for the text never mentions a religion.",
    "C1 stands. C2 was withdrawn in round 2.",
    "[E1] explains that the number is a code among haters.",
    "The passage [E2] shows that the emblem belongs to a choir, which refutes the first reading.",
    "The evidence found so far is of a different year, so it changes nothing.",
    "13/50 is a figure used to smear Black people as criminals.",
    "'1488' is a white-supremacist code.",
    "Text and image together say that women are appliances.",
    "The caption is harmless, but beside the photo of the queue it says that refugees are a burden.",
    "It wishes them well!",
    'An insult ("clown") at one referee.',
    "The author asks a question and accuses no one.",
    # Longer ones.
    "The post says that those people should not be hired. It gives no reason but their origin, and origin is "
    "protected by the policy. The defence calls it a view on the labour market, yet the text names no law and "
    "no market: it names people. One cue stands, so the post is hateful.",
    "At first sight the sentence is about roses in a flower bed, and the picture shows a flower bed. Nothing "
    "points to people: there is no pronoun, no place and no name. The prosecution's metaphor would need a "
    "second reading that the post does not offer. I therefore reject the cue.",
    "Round one brought two cues. On the first, the defender showed that the word is a surname here. On the "
    "second, both agree that a group is meant, and they differ on whether the tone is mocking. The exclamation"
    " marks, the laughing emoji and the phrase 'as always' speak for mockery, so I follow the prosecutor on "
    "this one.",
    "Three readings compete. In the first, the author complains of a landlord; in the second, of tenants; in "
    "the third, of tenants from abroad. The last line, 'send the keys with them', only makes sense in the "
    "third. Since the group is picked by nationality, and is told to leave, the post excludes it. The doubt "
    "that remains is small: the author may quote somebody, but no quotation marks or source are given, and the"
    " next sentence agrees with it in the first person.",
    "Hate, hate and hate again: the author counts how often he was called names at school, names each teacher "
    "who looked away, and ends by asking for help. It is a report by a target.",
    "It is said, and said again, that she can't park, that she can't cook and that she can't count; each time "
    "'because she is a woman'. That repeats one stereotype in three forms.",
    # Other languages.
    "특정 지역 출신이라는 이유로 사람들을 게으르다고 비난하므로 혐오 표현이다.",
    "작성자 본인의 이야기를 하고 있어 혐오가 아니다.",
    "정치인 한 명을 비판한 글이다.",
    "노인은 운전하면 안 된다고 하여 나이를 이유로 배제한다.",
    "비난의 대상이 집단이 아니라 식당의 음식 맛이기 때문에 혐오 표현으로 보기 어렵다.",
    "この投稿は外国人を仕事から締め出すべきだと述べている。",
    "対象は個人であり、保護される集団ではない。",
    "这句话因为出身而贬低一群人。",
    "作者在引用别人的话来批评它。",
    "Der Beitrag spricht einer ganzen Gruppe wegen ihrer Herkunft die Eignung ab.",
    "Es geht um den Lärm der Nachbarn, nicht um ihren Glauben.",
    "Le message vise une personne, non un groupe.",
    "Il refuse un emploi à des gens en raison de leur âge.",
    "Se burla de un equipo de fútbol.",
    "Afirma que todos los vecinos de ese pueblo mienten.",
    "Post wymierzony jest w jedną firmę, nie w ludzi.",
    "Автор осуждает оскорбление, которое цитирует.",
    "المنشور يمنع الناس من العمل بسبب أصلهم.",
    "यह पोस्ट एक धर्म के लोगों को झूठा कहती है।",
    "โพสต์นี้ดูถูกคนทั้งหมู่บ้านเพราะถิ่นกำเนิด",
    "Bài viết chê cả một nhóm người vì quê quán của họ.",
    "Yazı, yaşlı sürücüleri yalnızca yaşları yüzünden dışlıyor.",
]
