"""openai, realtime.translations: a session of simultaneous translation."""

from openai_realtime import encoded, run


def translate(connection, audio, word, listen):
    listen("session.created")
    connection.session.update(session={"audio": {"input": {"transcription": {"model": "gpt-realtime-whisper"}}, "output": {"language": "es"}}})
    listen("session.updated")
    for chunk in encoded(audio.chunks()):
        connection.session.input_audio_buffer.append(audio=chunk)
    connection.session.close()
    listen("session.closed")


run(lambda client: client.realtime.translations.connect(model="gpt-realtime-translate"), translate)
